"""Plug-ins for stock MetaSchedule: search strategy and builder."""
