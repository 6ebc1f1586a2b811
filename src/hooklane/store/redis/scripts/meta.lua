-- meta: write the layout A[1] and the number of buckets A[2] if this is the first time; answers what is there.
call('HSETNX', p .. ':meta', 'layout', A[1])
call('HSETNX', p .. ':meta', 'buckets', A[2])
return call('HMGET', p .. ':meta', 'layout', 'buckets')
