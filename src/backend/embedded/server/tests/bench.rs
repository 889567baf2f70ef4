//! Temporary.
use super::*;
#[test]
fn bench() {
    let mut server = Server::default();
    server.listen(b"freed", 2);
    let a: &[&[u8]] = &[b"7f3a9d5e-0000-4000-8000-123456789abc:1", LEASE, b"1"];
    let r: &[&[u8]] = &[b"7f3a9d5e-0000-4000-8000-123456789abc:1", b"0", b"PUBLISH", b"redisson_lock__channel:{lock}"];
    for _ in 0..3 {
        let (mut ta, mut tr) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..100_000 {
            let t = std::time::Instant::now();
            server.run(NOW, &reentrant::ACQUIRE, &[b"lock"], a);
            let u = std::time::Instant::now();
            server.run(NOW, &reentrant::RELEASE, &[b"lock"], r);
            server.take_published();
            ta += u - t;
            tr += u.elapsed();
        }
        println!("acquire {:?} release {:?}", ta / 100_000, tr / 100_000);
    }
}
