"""Schedules: what each of a schedule's times (its slots) starts, and what is written down of it. Pure, as all of core;
when the times are, `scheduler` knows."""
