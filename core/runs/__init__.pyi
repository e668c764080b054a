from .checkpoint import (
    Checkpoint as Checkpoint,
    CheckpointError as CheckpointError,
    best as best,
    cannot_write as cannot_write,
    checkpoints as checkpoints,
    clean as clean,
    ema_part as ema_part,
    find_checkpoints as find_checkpoints,
    load_weights as load_weights,
    named_tensors as named_tensors,
    prune as prune,
    read_tensors as read_tensors,
    restore as restore,
    write_checkpoint as write_checkpoint,
    write_tensors as write_tensors,
)
from .devices import (
    check_device as check_device,
    resolve_device as resolve_device,
    use_device as use_device,
)
from .folder import RunFolder as RunFolder
from .load import Loaded as Loaded, check_ema as check_ema, load_run as load_run
from .log_file import LogDigest as LogDigest
from .provenance import (
    check_importable as check_importable,
    code_overrides as code_overrides,
    defined_in_script as defined_in_script,
    provenance as provenance,
)
from .state import VALIDATION as VALIDATION, State as State
