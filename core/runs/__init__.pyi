from .changes import check_unchanged as check_unchanged
from .checkpoint import (
    Checkpoint as Checkpoint,
    best as best,
    check_free_space as check_free_space,
    checkpoints as checkpoints,
    clean as clean,
    ema_part as ema_part,
    find_checkpoints as find_checkpoints,
    gather_tensors as gather_tensors,
    load_weights as load_weights,
    named_tensors as named_tensors,
    prune as prune,
    read_tensors as read_tensors,
    restore as restore,
    write_checkpoint as write_checkpoint,
    write_tensors as write_tensors,
)
from .devices import check_device as check_device, resolve_device as resolve_device
from .folder import RunFolder as RunFolder
from .host_memory import retain_memory as retain_memory
from .load import Loaded as Loaded, check_ema as check_ema, load_run as load_run
from .log_file import LogDigest as LogDigest
from .precision import (
    Precision as Precision,
    check_precision as check_precision,
    model_on as model_on,
    use_bfloat16 as use_bfloat16,
)
from .provenance import (
    check_importable as check_importable,
    code_overrides as code_overrides,
    defined_in_script as defined_in_script,
    provenance as provenance,
)
from .ranks import (
    LONG as LONG,
    Ranks as Ranks,
    distribute as distribute,
    full_tensor as full_tensor,
    lost_rank as lost_rank,
    no_gradient_sync as no_gradient_sync,
    process_group as process_group,
)
from .state import VALIDATION as VALIDATION, State as State
