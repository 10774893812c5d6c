"""Commands that read recorded rows and measure nothing."""
