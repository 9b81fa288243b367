-- Pools of each rank at the end: reserved, used and free
select
  run, step, rank, device, pool_a, pool_b,
  count(*) as segments,
  sum(total_size) as reserved,
  sum(active_size) as active,
  sum(requested_size) as requested,
  sum(total_size - active_size) as free
from segments
group by run, step, rank, device, pool_a, pool_b
order by reserved desc, run, step, rank, device, coalesce(pool_a, -1), coalesce(pool_b, -1)
