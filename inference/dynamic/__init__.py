"""Tuning runs of networks with dynamic shapes: settings, comparison at several sizes, result."""
