import Testing

@testable import SOCKS

/// The messages of RFC 1928 and RFC 1929 are written out in bytes.
struct SOCKSHandshakeTests {
  private static let host = "relay.example"

  private func handshake() throws -> SOCKSHandshake {
    SOCKSHandshake(
      to: try #require(SOCKSTarget(host: Self.host, port: 443)),
      as: try #require(SOCKSLogin(user: "ab", password: "c")))
  }

  /// A SOCKS handshake that has reached the state after the accepted credentials.
  private func requested() throws -> SOCKSHandshake {
    var handshake = try handshake()
    _ = handshake.receive([5, 2, 1, 0])
    return handshake
  }

  private let request: [UInt8] = [5, 1, 0, 3, 13] + Array("relay.example".utf8) + [1, 187]

  @Test("The SOCKS client offers only user name and password, and sends the host by name")
  func goodCase() throws {
    var handshake = try handshake()
    #expect(handshake.greeting == [5, 1, 2])
    let credentials: [UInt8] = [1, 2, 97, 98, 1, 99]
    #expect(handshake.receive([5, 2]) == [.send(credentials)])
    #expect(handshake.receive([1, 0]) == [.send(request)])
    #expect(handshake.receive([5, 0, 0, 1, 127, 0, 0, 1, 0, 80]) == [.connected(rest: [])])
    #expect(handshake.receive([1, 2, 3]) == [])
  }

  @Test(
    "The address type of a SOCKS answer determines its length, and the bytes after it belong to the target",
    arguments: [
      [1, 10, 0, 0, 1], [3, 3, 97, 46, 98], [3, 0], [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    ] as [[UInt8]])
  func addresses(address: [UInt8]) throws {
    let answer: [UInt8] = [5, 0, 0] + address + [0, 80]
    for count in 0...answer.count {
      var handshake = try requested()
      let first = handshake.receive(Array(answer.prefix(count)))
      let second = handshake.receive(Array(answer.dropFirst(count)) + [7, 8])
      let rest: [UInt8] = [7, 8]
      if count == answer.count {
        // The answer is complete before the bytes of the target arrive, which are no longer part of the handshake.
        #expect(first == [.connected(rest: [])])
      } else {
        #expect(first == [])
        #expect(second == [.connected(rest: rest)])
      }
    }
  }

  @Test("A SOCKS answer that arrives byte by byte gives the same steps")
  func portions() throws {
    var handshake = try handshake()
    var steps: [SOCKSHandshake.Step] = []
    for byte in [5, 2, 1, 0, 5, 0, 0, 1, 1, 2, 3, 4, 5, 6] as [UInt8] { steps += handshake.receive([byte]) }
    let credentials: [UInt8] = [1, 2, 97, 98, 1, 99]
    #expect(steps == [.send(credentials), .send(request), .connected(rest: [])])
  }

  @Test(
    "Each SOCKS reply code has its own error",
    arguments: [
      (1, .generalFailure), (2, .notAllowed), (3, .networkUnreachable), (4, .hostUnreachable), (5, .connectionRefused),
      (6, .expired), (7, .commandNotSupported), (8, .addressNotSupported), (9, .otherReply(9)), (240, .otherReply(240)),
    ] as [(UInt8, SOCKSError)])
  func replies(code: UInt8, error: SOCKSError) throws {
    var handshake = try requested()
    // The reply code suffices, because some proxies send no address after an error.
    #expect(handshake.receive([5, code]) == [.failed(error)])
    #expect(handshake.receive([0, 1, 0, 0, 0, 0, 0, 0]) == [])
  }

  @Test("Each SOCKS error has a different sentence")
  func sentences() {
    let errors: [SOCKSError] =
      (1...9).map { SOCKSError(reply: $0) } + [
        .otherVersion, .noPasswords, .otherMethod(3), .passwordRefused, .malformed,
      ]
    #expect(Set(errors.map(\.description)).count == errors.count)
  }

  @Test("A proxy that accepts no user name and password is refused, because it would not isolate relays")
  func methods() throws {
    var handshake = try handshake()
    #expect(handshake.receive([5, 0xFF]) == [.failed(.noPasswords)])
    handshake = try self.handshake()
    #expect(handshake.receive([5, 0]) == [.failed(.otherMethod(0))])
  }

  @Test("Refused SOCKS credentials, other versions and unknown address types end the handshake")
  func malformed() throws {
    var handshake = try handshake()
    #expect(handshake.receive([4]) == [.failed(.otherVersion)])
    handshake = try self.handshake()
    let credentials: [UInt8] = [1, 2, 97, 98, 1, 99]
    #expect(handshake.receive([5, 2, 1, 1]) == [.send(credentials), .failed(.passwordRefused)])
    handshake = try self.handshake()
    #expect(handshake.receive([5, 2, 5]) == [.send(credentials), .failed(.malformed)])
    handshake = try requested()
    #expect(handshake.receive([5, 0, 0, 2, 0]) == [.failed(.malformed)])
    handshake = try requested()
    #expect(handshake.receive([4]) == [.failed(.otherVersion)])
    handshake = try self.handshake()
    #expect(handshake.receive(Array("HTTP/1.1 400 Bad Request".utf8)) == [.failed(.otherVersion)])
  }

  @Test("Numeric addresses, overlong names and names with forbidden characters are refused as SOCKS targets")
  func targets() {
    for host in [
      "127.0.0.1", "1.2.3", "::1", "[::1]", "", ".", "a..b", "-a.b", "a-.b", "a b", "a\u{0}b", "é.example", "a/b",
      String(repeating: "a", count: 64), String(repeating: "ab.", count: 84) + "abc",
    ] {
      #expect(SOCKSTarget(host: host, port: 1) == nil, "\(host)")
    }
    for host in ["a", "relay.example", "1.b", "x1", "xn--a.example", "abcdefghij234567.onion"] {
      #expect(SOCKSTarget(host: host, port: 1) != nil, "\(host)")
    }
    #expect(SOCKSTarget(host: "a", port: 0) == nil)
  }

  @Test("A SOCKS user name or password that is empty or longer than 255 bytes is refused")
  func credentials() {
    let long = String(repeating: "a", count: 256)
    #expect(SOCKSLogin(user: "", password: "a") == nil)
    #expect(SOCKSLogin(user: "a", password: "") == nil)
    #expect(SOCKSLogin(user: long, password: "a") == nil)
    #expect(SOCKSLogin(user: "a", password: long) == nil)
    #expect(SOCKSLogin(user: String(long.dropFirst()), password: "a") != nil)
  }
}
