// A client of redsync or of bsm/redislock that does what it is told.
//
//	peer --redis HOST:PORT[,HOST:PORT...] --client redsync|redislock
//
// Several servers are for redsync alone: its votes.
//
// It reads one command a line, its words between tabs, and answers each, in their order, with a line of JSON:
//
//	ID VERB NAME [WORD...]
//	{"id":1,"result":"x7Jm..."}
//	{"id":2,"error":"ErrTaken","message":"..."}
//
// The first line of all is {"id":0,"version":VERSION}. The end of the input ends the program at once, and nothing is
// released. Times are in milliseconds:
//
//	try NAME TTL [METADATA] its token, or null where somebody has the lock; redislock alone has metadata
//	wait NAME TTL WITHIN    the same, by the client's own waiting
//	adopt NAME TTL TOKEN    from now on the token is the one that this program holds the lock with
//	extend NAME TTL         to this TTL
//	release NAME
//	mine NAME               whether the lock is held with its token
//	count NAME TTL KEY N PAUSE
//	                        N times: waits for the lock, reads a number at KEY, pauses, writes the next one, releases
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const long = time.Minute

// A hold of one of the clients.
type hold interface {
	extend(ctx context.Context, ttl time.Duration) error
	release(ctx context.Context) error
	mine(ctx context.Context) (bool, error)
	token() string
}

// One of the clients. A hold is nil where somebody else has the lock.
type locks interface {
	try(ctx context.Context, name string, ttl time.Duration, metadata string) (hold, error)
	wait(ctx context.Context, name string, ttl, within time.Duration) (hold, error)
	adopt(ctx context.Context, name string, ttl time.Duration, token string) (hold, error)
	// What its errors are called.
	called(err error) string
}

type peer struct {
	locks
	server *redis.Client
	held   map[string]hold
}

func main() {
	addresses := flag.String("redis", "127.0.0.1:6379", "the server, or several with commas between them")
	client := flag.String("client", "", "redsync or redislock")
	flag.Parse()
	var servers []*redis.Client
	for _, address := range strings.Split(*addresses, ",") {
		servers = append(servers, redis.NewClient(&redis.Options{Addr: address}))
	}
	it := &peer{server: servers[0], held: map[string]hold{}}
	module := ""
	switch *client {
	case "redsync":
		it.locks, module = newRedsync(servers), "github.com/go-redsync/redsync/v4"
	case "redislock":
		it.locks, module = newRedislock(servers[0]), "github.com/bsm/redislock"
	default:
		fmt.Fprintln(os.Stderr, "no client is called", *client)
		os.Exit(2)
	}
	for _, server := range servers {
		if err := server.Ping(context.Background()).Err(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	say(map[string]any{"id": 0, "version": version(module)})
	commands := make(chan []string, 64)
	// One that waits for a lock need not be waited for.
	go func() {
		for words := range commands {
			say(it.answer(words))
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		commands <- strings.Split(lines.Text(), "\t")
	}
}

func version(module string) string {
	built, _ := debug.ReadBuildInfo()
	for _, it := range built.Deps {
		if it.Path == module {
			return strings.TrimPrefix(it.Version, "v")
		}
	}
	return ""
}

func say(answer map[string]any) {
	line, _ := json.Marshal(answer)
	os.Stdout.Write(append(line, '\n'))
}

func (it *peer) answer(words []string) map[string]any {
	number, _ := strconv.Atoi(words[0])
	result, err := it.run(context.Background(), words[1], words[2], words[3:])
	if err != nil {
		return map[string]any{"id": number, "error": it.called(err), "message": err.Error()}
	}
	return map[string]any{"id": number, "result": result}
}

func (it *peer) run(ctx context.Context, verb, name string, words []string) (any, error) {
	var ttl time.Duration
	if len(words) > 0 {
		ttl = ms(words[0])
	}
	switch verb {
	case "try":
		got, err := it.try(ctx, name, ttl, strings.Join(words[1:], ""))
		return it.keep(name, got), err
	case "wait":
		got, err := it.wait(ctx, name, ttl, ms(words[1]))
		return it.keep(name, got), err
	case "adopt":
		got, err := it.adopt(ctx, name, ttl, words[1])
		return it.keep(name, got) != nil, err
	case "extend":
		return true, it.held[name].extend(ctx, ttl)
	case "release":
		return true, it.held[name].release(ctx)
	case "mine":
		return it.held[name].mine(ctx)
	case "count":
		return true, it.count(ctx, name, ttl, words[1], words[2], ms(words[3]))
	}
	return nil, errors.New("no verb is called " + verb)
}

func (it *peer) keep(name string, got hold) any {
	if got == nil {
		return nil
	}
	it.held[name] = got
	return got.token()
}

func (it *peer) count(ctx context.Context, name string, ttl time.Duration, key, times string, pause time.Duration) error {
	left, _ := strconv.Atoi(times)
	for ; left > 0; left-- {
		got, err := it.wait(ctx, name, ttl, long)
		if err != nil {
			return err
		}
		if got == nil {
			return errors.New("waited in vain for " + name)
		}
		number, err := it.server.Get(ctx, key).Int()
		if err != nil && err != redis.Nil {
			return err
		}
		time.Sleep(pause)
		if err := it.server.Set(ctx, key, number+1, 0).Err(); err != nil {
			return err
		}
		if err := got.release(ctx); err != nil {
			return err
		}
	}
	return nil
}

func ms(word string) time.Duration {
	number, _ := strconv.Atoi(word)
	return time.Duration(number) * time.Millisecond
}
