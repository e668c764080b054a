from .changes import check_unchanged as check_unchanged
from .checkpoint import (
    Checkpoint as Checkpoint,
    best as best,
    check_room as check_room,
    checkpoints as checkpoints,
    clean as clean,
    find_checkpoints as find_checkpoints,
    gathered as gathered,
    load_weights as load_weights,
    named_tensors as named_tensors,
    part_of_average as part_of_average,
    prune as prune,
    read_tensors as read_tensors,
    restore as restore,
    write_checkpoint as write_checkpoint,
    write_tensors as write_tensors,
)
from .devices import check_device as check_device, place as place
from .folder import RunFolder as RunFolder
from .host_memory import kept_memory as kept_memory
from .load import Loaded as Loaded, check_average as check_average, load_run as load_run
from .log_file import LogSoFar as LogSoFar
from .precision import (
    Precision as Precision,
    check_precision as check_precision,
    use_bfloat16 as use_bfloat16,
    working as working,
)
from .provenance import (
    check_lasting as check_lasting,
    named_code as named_code,
    of_the_script as of_the_script,
    provenance as provenance,
)
from .ranks import (
    LONG as LONG,
    Ranks as Ranks,
    gradients_of_this_rank as gradients_of_this_rank,
    process_group as process_group,
    spread as spread,
    whole as whole,
)
from .state import VALIDATION as VALIDATION, State as State
