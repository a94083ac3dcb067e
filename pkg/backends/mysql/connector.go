package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// keepAlive lets a standby's connection, over which nothing comes for minutes, break when the server is gone.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}
}

// connector opens connections from what files and name servers say at that moment.
type connector struct{ b *Backend }

func (c connector) Driver() sqldriver.Driver { return driver.MySQLDriver{} }

func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	o, t := c.b.options, c.b.target
	cfg := driver.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", t.address, t.database
	cfg.DialFunc = c.b.dialer.DialContext
	cfg.User, cfg.Passwd = t.user, t.password
	if o.Password != nil {
		var err error
		if cfg.Passwd, err = o.Password(); err != nil {
			return nil, fmt.Errorf("password: %w", err)
		}
	}
	if o.TLS != nil {
		config, err := o.TLS()
		if err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		cfg.TLS = config
	}
	// A verified server may be told the password itself, as PAM, LDAP and cloud tokens need it.
	cfg.AllowCleartextPasswords = cfg.TLS != nil && !cfg.TLS.InsecureSkipVerify
	cfg.ClientFoundRows = true   // a renewal that changes nothing, after the clock was set back, is one all the same
	cfg.InterpolateParams = true // one round trip per statement, and nothing prepared that a proxy could lose
	cfg.CheckConnLiveness = false
	cfg.ConnectionAttributes = "program_name:simba-sidecar"
	log := &driverLog{logger: o.Logger}
	cfg.Logger = log
	seconds := strconv.FormatInt(int64((c.b.contender.TTL+time.Second-1)/time.Second)+1, 10)
	cfg.Params = map[string]string{
		"time_zone":  "'+00:00'",
		"autocommit": "1",
		// Strict, so that no name is cut or replaced; and no server default that changes what quotes mean.
		"sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
		// A process that is frozen or cut off keeps no connection, and none of its locks, for much longer than TTL.
		"wait_timeout": seconds,
		// A statement that was given up does not execute long after.
		"innodb_lock_wait_timeout": seconds,
	}
	connect, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := connect.Connect(ctx)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	if cause := log.last(); cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
		if cfg.TLS != nil {
			err = fmt.Errorf("%w: %w", errHungUp, err)
		}
	}
	return nil, err
}

// errHungUp is how a server refuses a certificate that it has seen after the client's side of the
// handshake was through. Whether its reason arrives is a matter of luck.
var errHungUp = errors.New("the server hung up on a TLS connection")

// driverLog takes what the driver logs about one connection. The causes of its errors are only there.
type driverLog struct {
	logger *slog.Logger
	mu     sync.Mutex
	cause  error
}

// Print implements the driver's Logger.
func (l *driverLog) Print(v ...any) {
	l.logger.Debug("driver", "err", fmt.Sprint(v...))
	for _, v := range v {
		if err, ok := v.(error); ok {
			l.mu.Lock()
			l.cause = err
			l.mu.Unlock()
		}
	}
}

func (l *driverLog) last() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}
