_hooks = []


def register_optimizer_step_post_hook(hook):
    _hooks.append(hook)


class Optimizer:
    def __init__(self, parameters):
        self.param_groups, self.state = [{"params": list(parameters)}], {}

    def step(self):
        for hook in _hooks:
            hook(self, (), {})
