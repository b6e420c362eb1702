//! ECDSA on P-521 with SHA-512, which `ring` lacks.
//!
//! What is verified is public, so nothing here runs in constant time: what is signed is signed with a key that is
//! published, or with one of the developer's own on their own machine. The curve's prime is 2^521 - 1: what exceeds 521
//! bits is added to the rest. Points are (X / Z^2, Y / Z^3).

use x509_parser::der_parser::num_bigint::BigUint;

use super::encoding::{Hash, digest};

/// Bytes of a coordinate, and of each half of a signature.
const HALF_BYTES: usize = 66;
/// Bits of the prime and of the order.
const BITS: u64 = 521;
/// FIPS 186-4, D.1.2.5.
const ORDER: &str = "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409";
const B: &str = "0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00";
const GENERATOR: [&str; 2] = [
    "00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66",
    "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650",
];

fn number(hex: &str) -> BigUint {
    BigUint::parse_bytes(hex.as_bytes(), 16).unwrap_or_default()
}

/// What the arithmetic needs, made once for each signature.
struct Curve {
    prime: BigUint,
    order: BigUint,
}

/// A point; at infinity where `z` is 0.
#[derive(Clone)]
struct Point {
    x: BigUint,
    y: BigUint,
    z: BigUint,
}

impl Curve {
    fn new() -> Self {
        Self { prime: (BigUint::from(1_u8) << BITS) - 1_u8, order: number(ORDER) }
    }

    fn reduced(&self, mut x: BigUint) -> BigUint {
        while x > self.prime {
            x = (&x & &self.prime) + (&x >> BITS);
        }
        if x == self.prime { BigUint::default() } else { x }
    }

    fn mul(&self, a: &BigUint, b: &BigUint) -> BigUint {
        self.reduced(a * b)
    }

    fn times(&self, a: &BigUint, n: u8) -> BigUint {
        self.reduced(a * n)
    }

    fn sub(&self, a: &BigUint, b: &BigUint) -> BigUint {
        self.reduced(a + &self.prime - b)
    }

    fn generator(&self) -> Point {
        let [x, y] = GENERATOR.map(number);
        Point { x, y, z: BigUint::from(1_u8) }
    }

    /// The point of an uncompressed public key; `None` where it is not on the curve, whose every point has its order.
    fn point(&self, key: &[u8]) -> Option<Point> {
        let (x, y) = key.strip_prefix(&[4])?.split_at_checked(HALF_BYTES)?;
        let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
        let is_small = key.len() == 1 + 2 * HALF_BYTES && x < self.prime && y < self.prime;
        let cube = self.mul(&self.mul(&x, &x), &x);
        let right = self.reduced(self.sub(&cube, &self.times(&x, 3)) + number(B));
        (is_small && self.mul(&y, &y) == right).then(|| Point { x, y, z: BigUint::from(1_u8) })
    }

    /// "dbl-2001-b" of the Explicit-Formulas Database, for a = -3.
    fn doubled(&self, p: &Point) -> Point {
        let delta = self.mul(&p.z, &p.z);
        let gamma = self.mul(&p.y, &p.y);
        let beta = self.mul(&p.x, &gamma);
        let alpha = self.mul(&self.sub(&p.x, &delta), &(&p.x + &delta));
        let alpha = self.times(&alpha, 3);
        let x = self.sub(&self.mul(&alpha, &alpha), &self.times(&beta, 8));
        let sum = &p.y + &p.z;
        let z = self.sub(&self.mul(&sum, &sum), &self.reduced(&gamma + &delta));
        let rest = self.sub(&self.times(&beta, 4), &x);
        let y = self.sub(&self.mul(&alpha, &rest), &self.times(&self.mul(&gamma, &gamma), 8));
        Point { x, y, z }
    }

    fn sum(&self, p: &Point, q: &Point) -> Point {
        let zero = BigUint::default();
        if p.z == zero {
            return q.clone();
        }
        if q.z == zero {
            return p.clone();
        }
        let (pzz, qzz) = (self.mul(&p.z, &p.z), self.mul(&q.z, &q.z));
        let (u1, u2) = (self.mul(&p.x, &qzz), self.mul(&q.x, &pzz));
        let s1 = self.mul(&p.y, &self.mul(&q.z, &qzz));
        let s2 = self.mul(&q.y, &self.mul(&p.z, &pzz));
        let (h, r) = (self.sub(&u2, &u1), self.sub(&s2, &s1));
        if h == zero {
            // One point twice, or a point and its opposite.
            return if r == zero { self.doubled(p) } else { Point { z: zero, ..p.clone() } };
        }
        let hh = self.mul(&h, &h);
        let hhh = self.mul(&h, &hh);
        let v = self.mul(&u1, &hh);
        let x = self.sub(&self.sub(&self.mul(&r, &r), &hhh), &self.times(&v, 2));
        let y = self.sub(&self.mul(&r, &self.sub(&v, &x)), &self.mul(&s1, &hhh));
        let z = self.mul(&h, &self.mul(&p.z, &q.z));
        Point { x, y, z }
    }

    /// `a` times `p` and `b` times `q`, in one go.
    fn combined(&self, (a, p): (&BigUint, &Point), (b, q): (&BigUint, &Point)) -> Point {
        let both = self.sum(p, q);
        let mut result = Point { z: BigUint::default(), ..p.clone() };
        for bit in (0..BITS).rev() {
            result = self.doubled(&result);
            result = match (a.bit(bit), b.bit(bit)) {
                (true, true) => self.sum(&result, &both),
                (true, false) => self.sum(&result, p),
                (false, true) => self.sum(&result, q),
                (false, false) => result,
            };
        }
        result
    }

    /// Whether a half of a signature is a number from 1 to below the order.
    fn is_half(&self, half: &BigUint) -> bool {
        *half != BigUint::default() && *half < self.order
    }
}

/// Whether `signature`, r and s, was made of `message` by the owner of `key`, an uncompressed point.
pub(super) fn verifies(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    is_of(key, message, signature).unwrap_or(false)
}

fn is_of(key: &[u8], message: &[u8], signature: &[u8]) -> Option<bool> {
    let curve = Curve::new();
    let (r, s) = signature.split_at_checked(HALF_BYTES).filter(|(_, s)| s.len() == HALF_BYTES)?;
    let (r, s) = (BigUint::from_bytes_be(r), BigUint::from_bytes_be(s));
    if !curve.is_half(&r) || !curve.is_half(&s) {
        return None;
    }
    let key = curve.point(key)?;
    let hash = BigUint::from_bytes_be(&digest(Hash::Sha512, &[message]));
    let inverse = s.modinv(&curve.order)?;
    let (a, b) = (&hash * &inverse % &curve.order, &r * &inverse % &curve.order);
    let point = curve.combined((&a, &curve.generator()), (&b, &key));
    if point.z == BigUint::default() {
        return None;
    }
    // r is the point's x less the order, where x is as large as that.
    let zz = curve.mul(&point.z, &point.z);
    let larger = &r + &curve.order;
    let is_r = point.x == curve.mul(&r, &zz);
    Some(is_r || (larger < curve.prime && point.x == curve.mul(&larger, &zz)))
}

/// The signature of `message` by the private number `secret`. Not in constant time: see above.
pub(super) fn signed(secret: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let curve = Curve::new();
    let secret_number = BigUint::from_bytes_be(secret);
    let hash = digest(Hash::Sha512, &[message]);
    let hash_number = BigUint::from_bytes_be(&hash);
    for attempt in 0..8_u8 {
        let halves = [[attempt, 0], [attempt, 1]].map(|n| digest(Hash::Sha512, &[&n, secret, &hash]));
        let nonce = BigUint::from_bytes_be(&halves.concat()) % &curve.order;
        let zero = (&BigUint::default(), &curve.generator());
        let point = curve.combined((&nonce, &curve.generator()), zero);
        let Some(inverse) = point.z.modinv(&curve.prime) else { continue };
        let x = curve.mul(&point.x, &curve.mul(&inverse, &inverse));
        let r = x % &curve.order;
        let s = nonce.modinv(&curve.order)? * (&hash_number + &r * &secret_number) % &curve.order;
        if curve.is_half(&r) && curve.is_half(&s) {
            return Some([half(&r)?, half(&s)?].concat());
        }
    }
    None
}

fn half(number: &BigUint) -> Option<Vec<u8>> {
    let bytes = number.to_bytes_be();
    Some([vec![0; HALF_BYTES.checked_sub(bytes.len())?], bytes].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{decode_hex, hex_text};

    /// Made with Node 20.20 (`crypto.generateKeyPairSync("ec", { namedCurve: "secp521r1" })`, `crypto.sign` with
    /// `dsaEncoding: "ieee-p1363"`).
    const KEY: &str = "0401dcaee298d4a431f48e4ada0d7e25478f5364363cd032ca8b0d5cd69d0dccb03686f5b87ec5e71d331dc06094c8f05892ee60fe82d0bc7f98a30eff50e26a6101d500a454d3caf2bcb0a6bcecd42f068a6144fd57f997593b5e34a5bdfc2889c703638df5d385b5b83ea27bc7f2644ab084e6ae960fccb432c0c7fcca94f51c165091da";
    const SIGNATURE: &str = "016e36eb853385002f7f80b2ebd1af26986dbc4c7192fe05e289e6e9787ab3bf8b838c598843f6bd8e7460c77f2c24cd079d4aabc2c34faa841b2edc1098ae1cf28a01f1a8bf16d14c880394f1346116148bc55b4141a1124afd5d0cb71a01526d292c79fbe55688fcd2203906101c3bc9682b4ed77e587917ba44feb6dde400a3e69414";
    const MESSAGE: &[u8] = b"which event is it?";

    fn bytes(hex: &str) -> Vec<u8> {
        decode_hex(hex).expect("hexadecimal")
    }

    #[test]
    fn a_signature_of_another_library_is_verified_and_nothing_else_is() {
        let (key, signature) = (bytes(KEY), bytes(SIGNATURE));
        assert!(verifies(&key, MESSAGE, &signature));
        assert!(!verifies(&key, b"which event is it!", &signature));
        for at in [0, 1, 40, 65, 66, 67, 100, 131] {
            let mut changed = signature.clone();
            changed[at] ^= 1;
            assert!(!verifies(&key, MESSAGE, &changed), "byte {at} of the signature");
            let mut changed = key.clone();
            changed[at + 1] ^= 1;
            assert!(!verifies(&changed, MESSAGE, &signature), "byte {at} of the key");
        }
        assert!(!verifies(&key, MESSAGE, &signature[..131]) && !verifies(&key, MESSAGE, b""));
        assert!(!verifies(&key[..132], MESSAGE, &signature) && !verifies(b"", MESSAGE, &signature));
    }

    #[test]
    fn halves_out_of_range_are_refused() {
        let (key, order) = (bytes(KEY), number(ORDER));
        let (r, s) = (bytes(&SIGNATURE[..132]), bytes(&SIGNATURE[132..]));
        let zero = vec![0; HALF_BYTES];
        let one = half(&BigUint::from(1_u8)).expect("66 bytes");
        let larger = |half: &[u8]| (BigUint::from_bytes_be(half) + &order).to_bytes_be();
        for (r, s) in [
            (&zero, &s),
            (&r, &zero),
            (&zero, &zero),
            (&one, &zero),
            (&one, &one),
            (&half(&order).expect("66"), &s),
        ] {
            assert!(!verifies(&key, MESSAGE, &[r.as_slice(), s].concat()), "{} {}", hex_text(r), hex_text(s));
        }
        for longer in [[larger(&r), s.clone()].concat(), [r.clone(), larger(&s)].concat()] {
            assert!(!verifies(&key, MESSAGE, &longer));
        }
    }

    #[test]
    fn the_edges_of_the_group_are_right() {
        let curve = Curve::new();
        let generator = curve.generator();
        let nothing = curve.combined((&curve.order, &generator), (&BigUint::default(), &generator));
        assert!(nothing.z == BigUint::default(), "the order times the generator is nothing");
        let twice = curve.sum(&generator, &generator);
        let zz = |p: &Point| curve.mul(&p.z, &p.z);
        let doubled = curve.doubled(&generator);
        assert!(curve.mul(&twice.x, &zz(&doubled)) == curve.mul(&doubled.x, &zz(&twice)));
        let opposite = Point { y: curve.sub(&curve.prime, &generator.y), ..generator.clone() };
        assert!(curve.sum(&generator, &opposite).z == BigUint::default());
        assert!(curve.sum(&nothing, &generator).x == generator.x);
    }
}
