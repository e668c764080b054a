from .atomic import (
    apply_default_mode as apply_default_mode,
    atomic_folder as atomic_folder,
    remove_folder as remove_folder,
    remove_leftovers as remove_leftovers,
    replace_file as replace_file,
    write_atomically as write_atomically,
)
from .cache_home import cache_folder as cache_folder
from .json_file import (
    JSONFileError as JSONFileError,
    finite as finite,
    is_count as is_count,
    is_number as is_number,
    parse_json as parse_json,
    read_json as read_json,
)
from .lock import locked as locked, take_lock as take_lock
