"""Writes a snapshot of CUDA memory as PyTorch's documentation describes it, without PyTorch and without a device."""
import pickle

BASE = 0x7F0000000000
FRAMES = [
    {"filename": "/model/layers.py", "name": "forward", "line": 12},
    {"filename": "/model/train.py", "name": "step", "line": 40},
]
OTHER = [{"filename": "/model/train.py", "name": "main", "line": 7}]


def entry(action, address, size, time, frames=None):
    key = "device_free" if action == "oom" else "addr"
    made = {"action": action, key: address, "size": size, "stream": 0, "time_us": 1000 + time}
    if frames is not None:
        made["frames"] = frames
    return made


# Two blocks were allocated before the first entry: one is freed, and one is live at the end.
TRACE = [
    entry("free_requested", BASE, 1000, 0, FRAMES),
    entry("free_completed", BASE, 1000, 1, FRAMES),
    entry("segment_alloc", BASE + (2 << 20), 2 << 20, 2, OTHER),
    entry("alloc", BASE + (2 << 20), 700000, 3, FRAMES),
    entry("alloc", BASE, 512, 4, OTHER),
    entry("oom", 1 << 30, 4 << 30, 5, FRAMES),
    entry("free_requested", BASE + (2 << 20), 700000, 6, FRAMES),
    entry("free_completed", BASE + (2 << 20), 700000, 7, FRAMES),
    entry("segment_free", BASE + (2 << 20), 2 << 20, 8),
    entry("snapshot", 0, 0, 9),
]
BLOCKS = [
    {"address": BASE, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": OTHER},
    {"address": BASE + 512, "size": 1024, "requested_size": 1024, "state": "inactive"},
    {"address": BASE + 1536, "size": 2048, "requested_size": 2000, "state": "active_pending_free"},
    {"address": BASE + 3584, "size": (2 << 20) - 3584, "requested_size": 0, "state": "inactive"},
]
SEGMENT = {
    "device": 1,
    "address": BASE,
    "total_size": 2 << 20,
    "allocated_size": 512,
    "active_size": 2560,
    "requested_size": 2512,
    "stream": 0,
    "segment_type": "small",
    "is_expandable": False,
    "segment_pool_id": (0, 0),
    "blocks": BLOCKS,
}
SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": "", "garbage_collection_threshold": 0.0, "expandable_segments": False}
SNAPSHOT = {"segments": [SEGMENT], "device_traces": [[], TRACE], "allocator_settings": SETTINGS}

with open("pytorch.pickle", "wb") as file:
    pickle.dump(SNAPSHOT, file)
with open("pytorch-2.pickle", "wb") as file:
    pickle.dump(SNAPSHOT, file, protocol=2)
