"""What a run was asked for: options, the configuration, the device, what may not change."""
