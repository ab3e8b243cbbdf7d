"""Sound on its way into the service: always int16 mono at 16 kHz once it leaves this package."""
