package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// load is what /leader does under requests.
type load struct {
	latency samples // one request after the other on one connection
	rate    float64 // requests per second over several connections
}

const (
	latencyRequests = 10000
	loadConnections = 8
	loadTime        = 3 * time.Second
)

func measureLoad(ctx context.Context, s *sidecar) (load, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadConnections}}
	defer client.CloseIdleConnections()
	request := func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/leader", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("the leader answers %s", response.Status)
		}
		return err
	}
	var l load
	for range latencyRequests {
		start := time.Now()
		if err := request(); err != nil {
			return load{}, err
		}
		l.latency = append(l.latency, time.Since(start))
	}
	var answered atomic.Int64
	start := time.Now()
	var g errgroup.Group
	for range loadConnections {
		g.Go(func() error {
			for time.Since(start) < loadTime {
				if err := request(); err != nil {
					return err
				}
				answered.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	l.rate = float64(answered.Load()) / time.Since(start).Seconds()
	return l, err
}
