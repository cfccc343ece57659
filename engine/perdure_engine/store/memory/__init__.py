"""The store in memory: the oracle for the SQL store, and the store of simulations and in-process
tests.
"""

from perdure_engine.store.memory.faults import Faults, Moment
from perdure_engine.store.memory.store import MemoryStore

__all__ = ["Faults", "MemoryStore", "Moment"]
