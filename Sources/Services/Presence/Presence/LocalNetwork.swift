import Common
import HTTP
import Journal
import Loop
import Network
import Thali

/// The local network of the service. It is a port: tests have a network in virtual time.
@LoopActor
protocol PresenceNetwork: AnyObject {
  var onEvent: (@LoopActor (PresenceNetworkEvent) -> Void)? { get set }
  /// Returns the content that HTTP serves.
  var stock: (@LoopActor () -> HTTPAnswer.Stock)? { get set }

  /// Monitors the interfaces, and receives datagrams.
  func start()
  /// Opens and closes the port for beacons and streams. Each call with true also opens it on the addresses where it
  /// could not be opened before.
  func serve(_ isServing: Bool)
  /// Sends a datagram on each interface, or an answer to an address.
  func send(_ intent: LocalDiscovery.Intent, dialects: Set<Dialect>)
  /// Requests beacons.
  ///
  /// - Parameter then: called once, later. Nil means that there is no response, or that it is not HTTP.
  func fetch(_ location: Location, then: @escaping @LoopActor (BeaconResponse?) -> Void) -> Registration
  /// Stops or resumes reading datagrams.
  func pauseReading(_ isPaused: Bool)
  /// The destination of a stream to a peer.
  func endpoint(of location: Location) -> Endpoint
  func stop()

  /// Whether an interface can be used.
  var isUsable: Bool { get }
  var tallies: [Tally] { get }
}

enum PresenceNetworkEvent {
  case datagram([UInt8], from: NetworkAddress, port: UInt16)
  case joined
  /// A peer has connected by TCP.
  case connected
  /// `isUsable` has changed.
  case changed
  /// A peer has connected and begins a TLS handshake.
  case stream(IncomingConnection)
}

extension NetworkAddress {
  init(_ address: IPAddress) {
    switch address {
    case .v4(let value): self = .v4(value)
    case .v6(let high, let low): self = .v6(high: high, low: low)
    }
  }

  var address: IPAddress {
    switch self {
    case .v4(let value): .v4(value)
    case .v6(let high, let low): .v6(high: high, low: low)
    }
  }
}

extension HTTPResponseReader: HTTPResponseReading {}

/// Answers the requests for beacons over one medium, at most 50 in a second.
struct BeaconRequests: Sendable {
  private static let perSecond = 50
  /// Number of seconds after which a refused client should try again.
  private static let retryAfter = 30

  private var bucket = TokenBucket(BeaconRequests.perSecond)

  mutating func answer(
    _ request: HTTPServerRequest, with stock: HTTPAnswer.Stock, at now: Instant
  ) -> HTTPServerResponse {
    let answer = HTTPAnswer(
      method: request.method, path: request.path,
      stock: bucket.take(at: now) ? stock : .busy(seconds: Self.retryAfter))
    return HTTPServerResponse(
      status: answer.status, headers: answer.headers.map { ($0.name, $0.value) }, body: answer.body)
  }
}

/// An address of this machine on one interface.
struct NetworkSite: Hashable, Sendable {
  /// Index of the interface.
  let interface: UInt32
  let address: IPAddress
}

/// The site that last received a datagram from each source address. At the limit, a source of the site with the most
/// sources is forgotten, so that forged sources on one interface do not displace the peers on others.
struct SourceSites: Sendable {
  private let limit: Int
  private var sites: [NetworkAddress: NetworkSite] = [:]
  private var sources: [NetworkSite: Set<NetworkAddress>] = [:]

  /// - Parameter limit: maximum number of source addresses.
  init(limit: Int) { self.limit = limit }

  /// Number of source addresses.
  var count: Int { sites.count }

  subscript(source: NetworkAddress) -> NetworkSite? { sites[source] }

  /// Records that a site has received a datagram.
  mutating func note(_ source: NetworkAddress, at site: NetworkSite) {
    guard sites[source] != site else { return }
    forget(source)
    if sites.count >= limit, let other = sources.values.max(by: { $0.count < $1.count })?.first { forget(other) }
    sites[source] = site
    sources[site, default: []].insert(source)
  }

  private mutating func forget(_ source: NetworkAddress) {
    guard let site = sites.removeValue(forKey: source) else { return }
    sources[site]?.remove(source)
    if sources[site]?.isEmpty == true { sources[site] = nil }
  }

  /// Forgets the sources of a site that is closed.
  mutating func forget(_ site: NetworkSite) {
    for source in sources.removeValue(forKey: site) ?? [] { sites[source] = nil }
  }

  /// The index of the interface over which a link-local IPv6 address is reached: the one that received its datagrams,
  /// or the only one with IPv6; 0 if it is unknown.
  ///
  /// - Parameter open: the sites that are open.
  func zone(of source: NetworkAddress, among open: some Collection<NetworkSite>) -> UInt32 {
    if let site = sites[source] { return site.interface }
    let interfaces = Set(open.filter { $0.address.isIPv6 }.map { $0.interface })
    guard interfaces.count == 1, let interface = interfaces.first else { return 0 }
    return interface
  }
}

/// The network of this machine. Each usable address is a site, with a port for multicast and, during an announcement, a
/// TCP listener. The first byte of a connection decides whether it is TLS or HTTP.
@LoopActor
final class LocalNetwork: PresenceNetwork {
  @LoopActor
  private final class Site {
    let key: NetworkSite
    let port: MulticastPort
    var listener: TCPListener?

    init(_ key: NetworkSite, _ port: MulticastPort) { (self.key, self.port) = (key, port) }
  }

  /// Maximum number of connections that wait for their first byte. A further one ends the oldest, because silent
  /// connections of strangers must not exclude a known peer, whose first byte follows at once.
  private static let silentLimit = 32
  /// Maximum numbers of connections of one listener: more than `silentLimit`, the HTTP connections and the streams
  /// together, and of one address.
  private static let bounds = ConnectionBounds(total: 192, ofOneAddress: 16)
  /// Maximum number of stored link-local addresses of peers, and of addresses of searchers.
  private static let rememberedSources = 1024
  private static let sites = 16

  var onEvent: (@LoopActor (PresenceNetworkEvent) -> Void)?
  var stock: (@LoopActor () -> HTTPAnswer.Stock)?
  private let settings: PresenceSettings
  private let scheduler: any Scheduler
  private var monitor: InterfaceMonitor?
  private var sitesByKey: [NetworkSite: Site] = [:]
  private var sources = SourceSites(limit: LocalNetwork.rememberedSources)
  private var server: HTTPServer?
  private var isServing = false
  private var isPaused = false
  private var waits: [Int: Registration] = [:]
  private var lastWait = 0
  private var httpLimit = ConnectionLimit<IPAddress>.httpConnections
  private var requests = BeaconRequests()
  private var refusals: [ConnectionRefusal: UInt64] = [:]
  private var fetchFailures: UInt64 = 0
  private var responseFailures = [UInt64](repeating: 0, count: HTTPError.allCases.count)
  private var silentConnections: UInt64 = 0
  private var siteFailures: UInt64 = 0
  /// Sums of the counters of closed ports.
  private var closedSums: [String: UInt64] = [:]

  init(_ settings: PresenceSettings, on scheduler: any Scheduler) {
    (self.settings, self.scheduler) = (settings, scheduler)
  }

  var isUsable: Bool { !sitesByKey.isEmpty }

  func start() {
    do throws(NetworkError) {
      server = try HTTPServer(on: scheduler) { [weak self] in self?.answer($0) ?? HTTPServerResponse(status: 503) }
      monitor = try InterfaceMonitor { [weak self] in self?.update($0) }
    } catch {
      Log.shared.error(
        "The network interfaces cannot be followed. \(error.sentence)", id: .presenceNetworkFailed, .error(error))
    }
  }

  func stop() {
    monitor?.close()
    server?.close()
    for site in sitesByKey.values { close(site) }
    (monitor, server, sitesByKey, waits) = (nil, nil, [:], [:])
  }

  // MARK: Interfaces

  private func isWanted(_ interface: NetworkInterface) -> Bool {
    guard let names = settings.interfaces else { return interface.isUsable && !interface.isLoopback }
    return names.contains(interface.name) && (interface.isUsable || interface.isLoopback)
  }

  /// The first IPv4 address and the first link-local IPv6 address.
  private static func addresses(of interface: NetworkInterface) -> [IPAddress] {
    [
      interface.addresses.first { !$0.isIPv6 }, interface.addresses.first { $0.isIPv6 && $0.isLinkLocal },
    ].compactMap { $0 }
  }

  private func update(_ interfaces: [NetworkInterface]) {
    var found: [(NetworkSite, String)] = []
    for interface in interfaces where isWanted(interface) {
      found += Self.addresses(of: interface).map {
        (NetworkSite(interface: interface.index, address: $0), interface.name)
      }
    }
    let wanted = found.prefix(Self.sites)
    let keys = Set(wanted.map(\.0))
    for (key, site) in sitesByKey where !keys.contains(key) {
      close(site)
      sitesByKey[key] = nil
      sources.forget(key)
    }
    var hasJoined = false
    for (key, name) in wanted where sitesByKey[key] == nil {
      do throws(NetworkError) {
        sitesByKey[key] = try open(key)
        hasJoined = true
      } catch {
        siteFailures += 1
        Log.shared.warning(
          "The interface \(name) cannot be used. \(error.sentence)", id: .presenceNetworkFailed, .error(error))
      }
    }
    listenWhereWanted()
    onEvent?(.changed)
    if hasJoined { onEvent?(.joined) }
  }

  private func open(_ key: NetworkSite) throws(NetworkError) -> Site {
    let groups = SSDPGroup.allCases.filter { group in
      (settings.reads.contains(group.dialect) || settings.sends == group.dialect)
        && group.address.address.isIPv6 == key.address.isIPv6
    }
    // Dialect `spec` has a group for each family; `node` has none for IPv6.
    guard !groups.isEmpty else { throw .unsupported }
    let port = try MulticastPort(
      interface: key.interface, source: key.address, groups: groups.map(\.address.address), port: SSDPGroup.port
    ) { [weak self] in self?.receive($0, at: key) }
    port.pauseReading(isPaused)
    return Site(key, port)
  }

  /// Opens the listeners that are missing during an announcement.
  private func listenWhereWanted() {
    guard isServing else { return }
    for site in sitesByKey.values where site.listener == nil { listen(site) }
  }

  private func listen(_ site: Site) {
    do throws(NetworkError) {
      let endpoint = Endpoint(
        site.key.address, port: UInt16(clamping: settings.port), zone: zone(of: site.key))
      site.listener = try TCPListener(on: endpoint, bounds: Self.bounds) { [weak self] in self?.accept($0) }
    } catch {
      siteFailures += 1
      Log.shared.warning(
        "Connections to one address of this machine cannot be accepted. \(error.sentence)", id: .presenceNetworkFailed,
        .error(error))
    }
  }

  private func zone(of key: NetworkSite) -> UInt32 { key.address.isIPv6 && key.address.isLinkLocal ? key.interface : 0 }

  private func close(_ site: Site) {
    for tally in site.port.counters.tallies { closedSums[tally.name, default: 0] += tally.count }
    site.port.close()
    site.listener?.close()
  }

  func serve(_ isServing: Bool) {
    self.isServing = isServing
    guard !isServing else { return listenWhereWanted() }
    for site in sitesByKey.values {
      site.listener?.close()
      site.listener = nil
    }
  }

  // MARK: Datagrams

  private func receive(_ datagram: Datagram, at key: NetworkSite) {
    let address = NetworkAddress(datagram.source.address)
    sources.note(address, at: key)
    onEvent?(.datagram(datagram.bytes, from: address, port: datagram.source.port))
  }

  func pauseReading(_ isPaused: Bool) {
    self.isPaused = isPaused
    for site in sitesByKey.values { site.port.pauseReading(isPaused) }
  }

  func send(_ intent: LocalDiscovery.Intent, dialects: Set<Dialect>) {
    if case .answer(_, let address, let port) = intent {
      guard let key = sources[address], let site = sitesByKey[key], let message = message(intent, at: site) else {
        return
      }
      let group: SSDPGroup = address.address.isIPv6 ? .ipv6 : settings.sends == .node ? .phones : .ipv4
      transmit(message.bytes(for: group), to: Endpoint(address.address, port: port, zone: zone(of: key)), site)
      return
    }
    for site in sitesByKey.values {
      guard let message = message(intent, at: site) else { continue }
      for group in SSDPGroup.allCases
      where dialects.contains(group.dialect) && group.address.address.isIPv6 == site.key.address.isIPv6 {
        let zone = site.key.address.isIPv6 ? site.key.interface : 0
        transmit(
          message.bytes(for: group), to: Endpoint(group.address.address, port: SSDPGroup.port, zone: zone), site)
      }
    }
  }

  /// Sends a datagram. The kernel refuses datagrams while an interface goes down; the port counts them.
  private func transmit(_ bytes: [UInt8], to endpoint: Endpoint, _ site: Site) {
    do throws(NetworkError) {
      try site.port.send(bytes, to: endpoint)
    } catch {
      Log.shared.debug("A datagram was not sent. \(error.sentence)")
    }
  }

  private func message(_ intent: LocalDiscovery.Intent, at site: Site) -> SSDPMessage? {
    func location() -> String? {
      site.listener.map { Location(address: NetworkAddress(site.key.address), port: $0.local.port).url }
    }
    switch intent {
    case .announce(let name): return location().map { .alive(name, location: $0) }
    case .answer(let name, _, _): return location().map { .response(name, location: $0) }
    case .withdraw(let name): return .byebye(name)
    case .search(let name): return .search(name, maximumWait: 1)
    case .sighted, .left: return nil
    }
  }

  // MARK: Connections

  private func accept(_ connection: IncomingConnection) {
    // A program of this machine proves nothing about the network.
    if !sitesByKey.keys.contains(where: { $0.address == connection.peer.address }) { onEvent?(.connected) }
    if waits.count >= Self.silentLimit, let oldest = waits.keys.min() {
      waits[oldest] = nil
      silentConnections += 1
    }
    lastWait += 1
    let number = lastWait
    waits[number] = connection.peek(within: Limits.firstByteTime, on: scheduler) { [weak self] byte in
      guard let self else { return }
      waits[number] = nil
      switch byte {
      case SecureStream.firstByte?: onEvent?(.stream(connection))
      case .some: serveRequest(connection)
      case nil: silentConnections += 1
      }
    }
  }

  private func serveRequest(_ connection: IncomingConnection) {
    let address = connection.peer.address
    do throws(ConnectionRefusal) {
      try httpLimit.open(address, at: scheduler.now)
      connection.hold(Registration { [weak self] in self?.httpLimit.close(address) })
      server?.serve(connection)
    } catch {
      refusals[error, default: 0] += 1
    }
  }

  private func answer(_ request: HTTPServerRequest) -> HTTPServerResponse {
    requests.answer(request, with: stock?() ?? .nothing, at: scheduler.now)
  }

  func endpoint(of location: Location) -> Endpoint {
    let address = location.address.address
    let zone = address.isIPv6 && address.isLinkLocal ? sources.zone(of: location.address, among: sitesByKey.keys) : 0
    return Endpoint(address, port: location.port, zone: zone)
  }

  func fetch(_ location: Location, then: @escaping @LoopActor (BeaconResponse?) -> Void) -> Registration {
    HTTPClient.send(
      HTTPRequest.beacons(host: location.host, path: location.path), to: endpoint(of: location),
      reading: HTTPResponseReader(), on: scheduler
    ) { [weak self] result in
      switch result {
      case .success(let response): then(BeaconResponse(response))
      case .failure(.response(let error)):
        self?.responseFailures[error.rawValue] += 1
        then(nil)
      case .failure:
        self?.fetchFailures += 1
        then(nil)
      }
    }
  }

  // MARK: Counters

  var tallies: [Tally] {
    let ports = sitesByKey.values.flatMap(\.port.counters.tallies)
    var sums = closedSums
    for tally in ports { sums[tally.name, default: 0] += tally.count }
    return sums.sorted { $0.key < $1.key }.map { Tally($0.key, $0.value) }
      + [
        Tally("FailedInterfaces", siteFailures), Tally("SilentConnections", silentConnections),
        Tally("FailedFetches", fetchFailures),
      ]
      + ConnectionRefusal.allCases.map { Tally("HTTP\($0.name)", refusals[$0, default: 0]) }
      + HTTPError.allCases.map { Tally($0.name, responseFailures[$0.rawValue]) }
      + (server?.counters.tallies ?? HTTPServerCounters().tallies)
  }
}
