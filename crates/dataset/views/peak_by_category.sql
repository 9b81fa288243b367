-- What is live at the peak of each rank, by what it is for, over all ranks
with each_rank as (
  select run, step, rank, device, category, sum(requested) as requested, sum(allocations) as allocations
  from at_peak
  group by run, step, rank, device, category
)
select
  category,
  sum(requested) as total_bytes,
  max(requested) as most_bytes,
  min(requested) as least_bytes,
  count(*) as ranks,
  sum(allocations) as total_allocations
from each_rank
group by category
order by total_bytes desc, category
