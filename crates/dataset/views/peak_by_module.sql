-- What is live at the peak of each rank, by module, over all ranks
with each_rank as (
  select run, step, rank, device, module, sum(requested) as requested, sum(allocations) as allocations
  from at_peak
  group by run, step, rank, device, module
)
select
  module,
  sum(requested) as total_bytes,
  max(requested) as most_bytes,
  min(requested) as least_bytes,
  count(*) as ranks,
  sum(allocations) as total_allocations
from each_rank
group by module
order by total_bytes desc, module
