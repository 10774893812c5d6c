"""Products with matrices that several backends share: in a layout, and split by magnitude."""
