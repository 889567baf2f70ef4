package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// How often it tries while it waits; it has no default.
const pause = 100 * time.Millisecond

type redislockLocks struct{ client *redislock.Client }

type redislockHold struct{ lock *redislock.Lock }

func newRedislock(server *redis.Client) locks {
	return redislockLocks{redislock.New(server)}
}

func (it redislockLocks) try(ctx context.Context, name string, ttl time.Duration, metadata string) (hold, error) {
	return got(it.client.Obtain(ctx, name, ttl, &redislock.Options{Metadata: metadata}))
}

func (it redislockLocks) wait(ctx context.Context, name string, ttl, within time.Duration) (hold, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	retry := redislock.LinearBackoff(pause)
	held, err := got(it.client.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: retry}))
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return held, err
}

// The only way to a hold with a given token is to obtain the lock once more: the server knows the token, and sets the TTL anew.
func (it redislockLocks) adopt(ctx context.Context, name string, ttl time.Duration, token string) (hold, error) {
	return got(it.client.Obtain(ctx, name, ttl, &redislock.Options{Token: token}))
}

func got(lock *redislock.Lock, err error) (hold, error) {
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &redislockHold{lock}, nil
}

func (redislockLocks) called(err error) string {
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return "ErrNotObtained"
	case errors.Is(err, redislock.ErrLockNotHeld):
		return "ErrLockNotHeld"
	}
	return "error"
}

func (it *redislockHold) extend(ctx context.Context, ttl time.Duration) error {
	return it.lock.Refresh(ctx, ttl, nil)
}

func (it *redislockHold) release(ctx context.Context) error { return it.lock.Release(ctx) }

func (it *redislockHold) mine(ctx context.Context) (bool, error) {
	left, err := it.lock.TTL(ctx)
	return left > 0, err
}

func (it *redislockHold) token() string { return it.lock.Token() }
