"""What figures of one column and of two have room for: names, legends, ticks, and labels beside points."""
