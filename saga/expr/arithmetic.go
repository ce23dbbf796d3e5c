package expr

import (
	"encoding/json"
	"errors"

	"github.com/cockroachdb/apd/v3"
)

// maxPower is the largest exponent of **.
const maxPower = 1000

// arithmetic computes a op b exactly; op is one of + - * / % **.
func arithmetic(op string, a, b json.Number) (json.Number, error) {
	x, err := decimalOf(a)
	if err != nil {
		return "", err
	}
	y, err := decimalOf(b)
	if err != nil {
		return "", err
	}
	var d *apd.Decimal
	switch op {
	case "+", "-":
		d, err = addDecimals(x, y, op == "-")
	case "*":
		d = new(apd.Decimal)
		_, err = apd.BaseContext.Mul(d, x, y)
	case "/":
		d, err = divide(x, y)
	case "%":
		d, err = remainder(x, y)
	default:
		d, err = power(x, y)
	}
	if err != nil {
		return "", asTooLarge(err)
	}
	return numberOf(d)
}

// asTooLarge keeps errors of this package. The other errors of apd are about the range of numbers.
func asTooLarge(err error) error {
	if e, ok := errors.AsType[*EvalError](err); ok {
		return e
	}
	return errTooLarge()
}

func topExponent(d *apd.Decimal) int64 { return d.NumDigits() + int64(d.Exponent) - 1 }

// addDecimals adds exactly. It first limits the number of digits between the highest and the lowest
// place. Otherwise 1e9999 + 1 would be written out.
func addDecimals(x, y *apd.Decimal, minus bool) (*apd.Decimal, error) {
	d := new(apd.Decimal)
	if minus {
		y = d.Neg(y)
		d = new(apd.Decimal)
	}
	low := min(int64(x.Exponent), int64(y.Exponent))
	high := max(topExponent(x), topExponent(y))
	if high-low+1 > MaxDigits {
		switch {
		case y.IsZero():
			return x, nil
		case x.IsZero():
			return y, nil
		}
		return nil, errTooLarge()
	}
	_, err := apd.BaseContext.Add(d, x, y)
	return d, err
}

// divide is exact if the quotient ends within 34 digits. Otherwise it rounds half-even to 34
// digits, as IEEE 754 decimal128 does.
func divide(x, y *apd.Decimal) (*apd.Decimal, error) {
	if y.IsZero() {
		return nil, fail(CodeDivisionByZero, "division by zero; guard it, as in b == 0 ? 0 : a / b")
	}
	ctx := apd.BaseContext.WithPrecision(divDigits)
	ctx.Rounding = apd.RoundHalfEven
	d := new(apd.Decimal)
	if _, err := ctx.Quo(d, x, y); err != nil {
		return nil, err
	}
	ideal := x.Exponent - y.Exponent
	d.Reduce(d)
	if d.IsZero() || d.Exponent <= ideal {
		return d, nil
	}
	// Restore the trailing zeros of the operands: 38.20 / 2 is 19.10.
	if places := int64(d.Exponent - ideal); d.NumDigits()+places <= divDigits {
		_, err := ctx.Quantize(d, d, ideal)
		return d, err
	}
	return d, nil
}

// integerOf returns d as an integer, or false if it is not one, or has more than MaxDigits digits.
func integerOf(d *apd.Decimal) (*apd.BigInt, bool, error) {
	r, _ := new(apd.Decimal).Reduce(d)
	if r.IsZero() {
		return new(apd.BigInt), true, nil
	}
	if r.Exponent < 0 {
		return nil, false, nil
	}
	if topExponent(r) >= MaxDigits {
		return nil, false, errTooLarge()
	}
	scale := new(apd.BigInt).Exp(apd.NewBigInt(10), apd.NewBigInt(int64(r.Exponent)), nil)
	i := new(apd.BigInt).Mul(&r.Coeff, scale)
	if r.Negative {
		i.Neg(i)
	}
	return i, true, nil
}

// remainder has the sign of the dividend, as in Go.
func remainder(x, y *apd.Decimal) (*apd.Decimal, error) {
	a, okA, err := integerOf(x)
	if err != nil {
		return nil, err
	}
	b, okB, err := integerOf(y)
	if err != nil {
		return nil, err
	}
	if !okA || !okB {
		return nil, fail(CodeWrongType, "%% takes integers; use int() first")
	}
	if b.Sign() == 0 {
		return nil, fail(CodeDivisionByZero, "remainder by zero; guard it, as in b == 0 ? 0 : a %% b")
	}
	return apd.NewWithBigInt(new(apd.BigInt).Rem(a, b), 0), nil
}

func power(x, y *apd.Decimal) (*apd.Decimal, error) {
	n, ok, err := integerOf(y)
	if err != nil {
		return nil, err
	}
	if !ok || n.Sign() < 0 || !n.IsInt64() || n.Int64() > maxPower {
		return nil, fail(CodeWrongType, "the exponent must be an integer from 0 to %d", maxPower)
	}
	if (x.NumDigits()-1)*n.Int64() > MaxDigits || int64(x.Exponent)*n.Int64() > 2*MaxExponent ||
		int64(x.Exponent)*n.Int64() < -2*MaxExponent {
		return nil, errTooLarge()
	}
	d := apd.NewWithBigInt(new(apd.BigInt).Exp(&x.Coeff, n, nil), x.Exponent*int32(n.Int64()))
	d.Negative = x.Negative && n.Int64()%2 == 1
	return d, nil
}

// quantize rounds x to places digits after the point (before it, if negative).
func quantize(x json.Number, places int32, how apd.Rounder) (json.Number, error) {
	d, err := decimalOf(x)
	if err != nil {
		return "", err
	}
	if topExponent(d)+int64(places)+1 > MaxDigits {
		return "", errTooLarge()
	}
	// If a value is below a tenth of the unit, apd returns zero without asking the rounder. A tenth
	// of the unit is rounded as that value must be.
	if unit := -places; !d.IsZero() && topExponent(d) < int64(unit)-1 {
		d.Coeff.SetInt64(1)
		d.Exponent = unit - 1
	}
	ctx := apd.BaseContext.WithPrecision(2 * MaxDigits)
	ctx.Rounding = how
	if _, err := ctx.Quantize(d, d, -places); err != nil {
		return "", asTooLarge(err)
	}
	return numberOf(d)
}
