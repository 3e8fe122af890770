"""Networks tuned by MetaSchedule with many programs a task, over several sessions."""
