"""Callbacks for training frameworks. Import the module of yours; each imports its framework."""
