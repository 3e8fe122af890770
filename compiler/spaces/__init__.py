"""Design spaces of MetaSchedule without programs that are not worth measuring."""
