-- The 100 largest allocations of all ranks
select
  run, step, rank, device, allocation, requested, size, alloc_event, free_event, file, line, name, category, phase, module
from allocations
order by requested desc, run, step, rank, device, allocation
limit 100
