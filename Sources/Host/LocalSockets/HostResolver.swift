import Glibc
import Loop

/// Finds the addresses of a host by its name. It is a protocol, so that tests can define names.
@LoopActor
public protocol HostResolving: AnyObject, Sendable {
  /// Looks up the addresses of a name.
  ///
  /// - Parameter then: called once on the loop, never from within this call, with numeric addresses in the order in
  ///   which they should be tried, or a reason as part of a sentence.
  func resolve(_ name: String, then: @escaping @LoopActor (Result<[String], HostFailure>) -> Void)
}

/// Reason why no address was found for a host name, as a clause of a sentence.
public struct HostFailure: Error, Hashable, Sendable, CustomStringConvertible {
  public let description: String

  public init(_ description: String) { self.description = description }
}

/// The resolver of the C library: `/etc/hosts`, DNS and the other sources of `nsswitch.conf`.
@LoopActor
public final class HostResolver: HostResolving {
  /// Maximum number of addresses of one name that are used.
  private nonisolated static let limit = 16

  private let worker: any Offloading

  /// - Parameter worker: the thread that waits for DNS; nil makes a new one.
  public nonisolated init(worker: (any Offloading)? = nil) { self.worker = worker ?? SerialWorker("resolver") }

  public func resolve(_ name: String, then: @escaping @LoopActor (Result<[String], HostFailure>) -> Void) {
    worker.offload({ Self.addresses(of: name) }, then: then)
  }

  /// Whether a text is a numeric IPv4 or IPv6 address.
  public nonisolated static func isNumeric(_ host: String) -> Bool { InternetAddress(host: host, port: 0) != nil }

  /// The addresses of a host that needs no lookup: a numeric address, and `localhost`; nil for any other name.
  public nonisolated static func known(_ host: String) -> [String]? {
    if isNumeric(host) { return [host] }
    return host == "localhost" ? ["127.0.0.1"] : nil
  }

  private nonisolated static func addresses(of name: String) -> Result<[String], HostFailure> {
    var hints = addrinfo()
    (hints.ai_family, hints.ai_socktype) = (AF_UNSPEC, Int32(SOCK_STREAM.rawValue))
    // Without an IPv6 address on this machine, the resolver returns no IPv6 addresses.
    hints.ai_flags = AI_ADDRCONFIG
    var found: UnsafeMutablePointer<addrinfo>?
    let result = getaddrinfo(name, nil, &hints, &found)
    guard result == 0 else {
      return .failure(HostFailure("the name \(name) has no address: \(String(cString: gai_strerror(result)))"))
    }
    defer { freeaddrinfo(found) }
    var hosts: [String] = []
    var next = found
    while let entry = next, hosts.count < limit {
      var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN) + 32)
      if getnameinfo(
        entry.pointee.ai_addr, entry.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
      {
        let host = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // Link-local addresses are left out. They have a zone suffix, so `isNumeric` refuses them, and no server uses
        // them.
        if isNumeric(host), !hosts.contains(host) { hosts.append(host) }
      }
      next = entry.pointee.ai_next
    }
    return hosts.isEmpty ? .failure(HostFailure("the name \(name) has no address")) : .success(hosts)
  }
}
