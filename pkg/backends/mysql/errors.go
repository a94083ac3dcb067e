package mysql

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"

	driver "github.com/go-sql-driver/mysql"
)

// Numbers of the server's errors. MariaDB and MySQL share them up to 1999.
const (
	errTooManyConnections = 1040
	errDatabaseDenied     = 1044
	errAccessDenied       = 1045
	errNoDatabase         = 1049
	errUnknownColumn      = 1054
	errDuplicateKey       = 1062
	errHostDenied         = 1130
	errTableDenied        = 1142
	errColumnDenied       = 1143
	errNoTable            = 1146
	errUserConnections    = 1203
	errLockWait           = 1205
	errDeadlock           = 1213
	errUserLimit          = 1226
	errPrivilege          = 1227
	errAuthMode           = 1251
	errCollationMix       = 1267
	errOption             = 1290 // "running with the --read-only option", and others
	errBadString          = 1366
	errTooLong            = 1406
	errReadOnlyTx         = 1792
	errReadOnlyMode       = 1836
	errNeedsTLS           = 3159
	errNoConversion       = 3854
)

func isServerError(err error, numbers ...uint16) bool {
	e, ok := errors.AsType[*driver.MySQLError](err)
	return ok && slices.Contains(numbers, e.Number)
}

func isRefused(err error) bool {
	return isServerError(err, errDatabaseDenied, errTableDenied, errColumnDenied, errPrivilege)
}

// explain adds to an error what its reader can do about it, where that is known.
func (b *Backend) explain(err error) error {
	if err == nil {
		return nil
	}
	if remedy := b.remedy(err); remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}

func (b *Backend) remedy(err error) string {
	switch {
	case errors.Is(err, errCollision):
		return "" // it says so itself
	case errors.Is(err, errMissing):
		return "as an administrator run " + oneLine(createTable(b.statements.table)) + "; " + b.grant()
	}
	if e, ok := errors.AsType[*driver.MySQLError](err); ok {
		return b.serverRemedy(e)
	}
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		dns       *net.DNSError
		network   *net.OpError
	)
	switch {
	case errors.Is(err, driver.ErrNoTLS):
		return "enable TLS on the server, or drop the --tls-… flags"
	case errors.As(err, &authority):
		return "--tls-ca must hold the authority that signed the server's certificate"
	case errors.As(err, &host):
		return "the server's certificate is for another name: set --tls-server-name, or the host in the backend's URL"
	case errors.As(err, &invalid):
		return "renew the server's certificate, or check the clocks"
	case errors.Is(err, errHungUp):
		return "it may want another certificate: check --tls-cert and --tls-key"
	case errors.Is(err, driver.ErrUnknownPlugin), errors.Is(err, driver.ErrOldPassword), errors.Is(err, driver.ErrNativePassword):
		return "alter the account to authenticate with caching_sha2_password or mysql_native_password"
	case errors.Is(err, driver.ErrCleartextPassword):
		return "this account's password is sent as it is, which needs TLS: set --tls-ca"
	case errors.As(err, &dns):
		return "check the host in the backend's URL"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer from " + b.target.address + " in time"
	case errors.As(err, &network):
		return "check host and port in the backend's URL, and that the server runs"
	case errors.Is(err, driver.ErrInvalidConn):
		return "the connection to " + b.target.address + " broke"
	}
	return ""
}

func (b *Backend) serverRemedy(e *driver.MySQLError) string {
	switch e.Number {
	case errAccessDenied:
		return "check the user in the backend's URL, its password (--password-file, or SIMBA_PASSWORD) and whether the account demands TLS (--tls-ca, --tls-cert, --tls-key)"
	case errHostDenied:
		return "create an account that may connect from this address"
	case errAuthMode:
		return "alter the account to authenticate with caching_sha2_password or mysql_native_password"
	case errNeedsTLS:
		return "the server demands TLS: set --tls-ca"
	case errNoDatabase:
		return "create the database, or name another one in the path of the backend's URL"
	case errDatabaseDenied, errTableDenied, errColumnDenied, errPrivilege:
		return "as an administrator run " + b.grant()
	case errNoTable, errUnknownColumn:
		return "the table is not, or no longer, what it should be: `simba-sidecar schema mysql` prints it"
	case errOption, errReadOnlyTx, errReadOnlyMode:
		return "the server is read-only: the host in the backend's URL must be the primary"
	case errTooManyConnections, errUserConnections, errUserLimit:
		return "raise the server's or the account's limit: every contender keeps one connection, and opens a second one to read"
	case errBadString:
		return "use an ASCII name for the identity, or " + convertTable
	case errLockWait, errDeadlock:
		return "another transaction keeps the mutex's row locked: nothing but contenders should touch the table"
	}
	return ""
}
