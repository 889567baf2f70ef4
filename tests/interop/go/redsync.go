package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// A vote of one server: by default it is asked for within a twentieth of the TTL, and for short ones that is less than a busy
// machine needs.
const within = 0.5

type redsyncLocks struct{ rs *redsync.Redsync }

type redsyncHold struct {
	rs    *redsync.Redsync
	mutex *redsync.Mutex
}

func newRedsync(servers []*redis.Client) locks {
	var pools []pool.Pool
	for _, server := range servers {
		pools = append(pools, goredis.NewPool(server))
	}
	return redsyncLocks{redsync.New(pools...)}
}

func (it redsyncLocks) mutex(name string, ttl time.Duration, more ...redsync.Option) *redsync.Mutex {
	return it.rs.NewMutex(name, append(more, redsync.WithExpiry(ttl), redsync.WithTimeoutFactor(within))...)
}

func (it redsyncLocks) try(ctx context.Context, name string, ttl time.Duration, _ string) (hold, error) {
	mutex := it.mutex(name, ttl)
	return it.got(mutex, mutex.TryLockContext(ctx))
}

func (it redsyncLocks) wait(ctx context.Context, name string, ttl, within time.Duration) (hold, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	mutex := it.mutex(name, ttl, redsync.WithTries(1_000_000))
	return it.got(mutex, mutex.LockContext(ctx))
}

func (it redsyncLocks) got(mutex *redsync.Mutex, err error) (hold, error) {
	if taken := new(redsync.ErrTaken); errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &redsyncHold{it.rs, mutex}, nil
}

func (it redsyncLocks) adopt(_ context.Context, name string, ttl time.Duration, token string) (hold, error) {
	return &redsyncHold{it.rs, it.mutex(name, ttl, redsync.WithValue(token))}, nil
}

func (redsyncLocks) called(err error) string {
	var taken *redsync.ErrTaken
	var fault *redsync.RedisError
	switch {
	case errors.As(err, &fault):
		return "RedisError"
	case errors.As(err, &taken):
		return "ErrTaken"
	case errors.Is(err, redsync.ErrLockAlreadyExpired):
		return "ErrLockAlreadyExpired"
	case errors.Is(err, redsync.ErrExtendFailed):
		return "ErrExtendFailed"
	}
	return "error"
}

func (it *redsyncHold) extend(ctx context.Context, ttl time.Duration) error {
	// The TTL is the mutex's: one with another TTL and the same token is the same hold.
	same := redsyncLocks{it.rs}.mutex(it.mutex.Name(), ttl, redsync.WithValue(it.mutex.Value()))
	_, err := same.ExtendContext(ctx)
	return err
}

func (it *redsyncHold) release(ctx context.Context) error {
	_, err := it.mutex.UnlockContext(ctx)
	return err
}

func (it *redsyncHold) mine(ctx context.Context) (bool, error) {
	// `Until` is the local clock's word; this one asks the server.
	valid, err := it.mutex.ValidContext(ctx)
	var taken *redsync.ErrTaken
	var one *redsync.ErrNodeTaken
	if errors.As(err, &taken) || errors.As(err, &one) {
		err = nil
	}
	return valid, err
}

func (it *redsyncHold) token() string { return it.mutex.Value() }
