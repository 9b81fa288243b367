-- Peak and end of each step of each rank, and how they change from step to step
select
  run, step, rank, device, in_step, peak_requested, end_requested, growth, kept,
  peak_requested - lag(peak_requested) over (partition by run, step, rank, device order by in_step) as peak_growth
from steps
order by run, step, rank, device, in_step
