"""The service: many streams that learn while they answer, and lose nothing that they accepted."""
