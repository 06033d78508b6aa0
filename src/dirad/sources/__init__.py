"""Sources of samples for a service: files that grow, and messages of an MQTT broker."""
