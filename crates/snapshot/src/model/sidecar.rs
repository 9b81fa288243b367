//! What vramscope's recorder wrote beside a snapshot: how much the device has, who else holds memory of it, and which
//! tensors a block holds.
//!
//! Capacities and memory outside PyTorch are where other sources put them, too: in
//! [`Snapshot::capacities`](super::Snapshot::capacities) and [`Snapshot::outside`](super::Snapshot::outside).

use serde::{Deserialize, Serialize};

use super::{DeviceId, StrId};

/// The facts of a sidecar that no other table has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sidecar {
    /// Why the snapshot was written: `exit`, `signal`, `step`, `oom` or `call`.
    pub reason: String,
    /// What was running, with its version: `torch`, `cuda`, `driver`.
    pub versions: Vec<(String, String)>,
    /// The allocator behind PyTorch's: `native`, `cudaMallocAsync`.
    pub backend: Option<String>,
    /// `PYTORCH_ALLOC_CONF` as the program was started with it.
    pub alloc_conf: Option<String>,
    /// Devices that the process used.
    pub devices: Vec<DeviceMemory>,
    /// Pinned host memory, where PyTorch counts it.
    pub pinned: Option<Pinned>,
    /// Storages of models and optimizers at the dump, by device and address.
    #[serde(skip)]
    pub storages: Vec<Storage>,
}

/// Memory of a device when the snapshot was written, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// Which device.
    pub device: DeviceId,
    /// What it is, e.g. `NVIDIA H200`.
    pub model: Option<String>,
    /// All memory that it has.
    pub capacity: u64,
    /// What the driver could still hand out to any process.
    pub free: u64,
    /// Held by the allocator of this process.
    pub reserved: u64,
    /// What the program allowed itself, if that is less than the device has.
    pub limit: Option<u64>,
    /// Who holds what is outside PyTorch, as far as the driver tells; the parts add up to it.
    pub holders: Vec<(Holder, u64)>,
}

/// Who holds memory of a device besides PyTorch's allocator in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holder {
    /// Another process.
    Process(u64),
    /// All other processes that are not named.
    OtherProcesses,
    /// Communicators of this process.
    Nccl,
    /// What this process has beside that: the CUDA context, cuBLAS and other libraries.
    Context,
    /// What no process that the driver lists has: the driver itself, or processes of other containers.
    Unlisted,
    /// Any of these: the driver lists no processes.
    Unknown,
}

impl Holder {
    /// Who, in words.
    pub fn words(self) -> String {
        match self {
            Self::Process(pid) => format!("process {pid}"),
            Self::OtherProcesses => "other processes".to_owned(),
            Self::Nccl => "NCCL".to_owned(),
            Self::Context => "CUDA context and libraries".to_owned(),
            Self::Unlisted => "driver and unlisted processes".to_owned(),
            Self::Unknown => "other processes, CUDA context and libraries".to_owned(),
        }
    }

    /// Whether it is certainly another process.
    pub fn is_other_process(self) -> bool {
        matches!(self, Self::Process(_) | Self::OtherProcesses)
    }
}

impl DeviceMemory {
    /// What this process could hold: what it may, of what nobody else holds.
    pub fn room(&self) -> u64 {
        let room = self.capacity.saturating_sub(self.outside());
        self.limit.map_or(room, |limit| limit.min(room))
    }

    /// What is neither free nor held by this process's allocator: other processes, the CUDA context, libraries.
    pub fn outside(&self) -> u64 {
        self.capacity.saturating_sub(self.free).saturating_sub(self.reserved)
    }
}

/// Pinned host memory, in bytes. PyTorch rounds each request up to a power of two, and keeps what is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Blocks that the allocator holds, in use or not.
    pub blocks: u64,
    /// Bytes of all blocks.
    pub held: u64,
    /// The most that they ever were.
    pub peak: u64,
    /// Bytes of blocks in use.
    pub active: u64,
    /// Bytes of the tensors in them, and of the blocks that those tensors need, where the recorder looked.
    pub tensors: Option<(u64, u64)>,
}

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum TensorRole {
    /// A parameter of a module.
    Parameter,
    /// A buffer of a module.
    Buffer,
    /// `.grad` of a parameter.
    Gradient,
    /// State of an optimizer.
    Optimizer,
}

impl TensorRole {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Parameter, Self::Buffer, Self::Gradient, Self::Optimizer];

    /// The word that sidecars have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Buffer => "buffer",
            Self::Gradient => "gradient",
            Self::Optimizer => "optimizer",
        }
    }
}

/// The memory of a tensor that a model or an optimizer had when the snapshot was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// Which device.
    pub device: DeviceId,
    /// Where it begins.
    pub addr: u64,
    /// How long it is.
    pub bytes: u64,
    /// What it is for.
    pub role: TensorRole,
    /// `layers.0.attn.weight`; for optimizer state with its key behind: `layers.0.attn.weight.exp_avg`.
    pub name: StrId,
}
