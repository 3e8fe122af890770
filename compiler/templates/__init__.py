"""Hardware-native templates: schedules around multiply-add instructions (Bolt, section 3.2)."""
