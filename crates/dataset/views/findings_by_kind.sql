-- What looks wrong, by kind, over all ranks
select
  kind, severity,
  count(*) as findings,
  sum(bytes) as total_bytes,
  max(bytes) as most_bytes
from findings
group by kind, severity
order by total_bytes desc, kind, severity
