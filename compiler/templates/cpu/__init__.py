"""Hardware-native templates for x86 CPUs (Bolt, section 3.2)."""
