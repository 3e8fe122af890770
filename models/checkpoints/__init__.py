"""Checkpoints: weights with a card, their loading and their verification."""
