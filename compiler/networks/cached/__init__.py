"""Cache of converted networks by content: a network that was converted and checked before is read instead."""
