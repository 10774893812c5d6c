"""What figures of one column and of two have room for: names, legends, ticks, labels beside points; and in words."""
