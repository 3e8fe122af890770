"""Transfer of a cost model to a new device with few tasks (Fasor, section 4.2)."""
