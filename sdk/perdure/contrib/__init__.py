"""What goes with other libraries; each needs its extra."""
