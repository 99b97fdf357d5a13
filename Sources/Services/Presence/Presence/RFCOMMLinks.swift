import Common
import HTTP
import Journal
import Loop
import Network
import Thali

/// The RFCOMM links with peers. Each link carries several streams: HTTP for beacons, and TLS for programs. The side
/// that made a link opens the streams.
@LoopActor
final class RFCOMMLinks {
  /// The callbacks of the links.
  struct Owner {
    /// Whether this machine announces itself.
    let hasBeacons: @LoopActor () -> Bool
    /// Opens a link. The result is nil if the peer cannot be reached.
    let connect: @LoopActor (DeviceAddress, @escaping @LoopActor (Int32?) -> Void) -> Void
    /// Called when a peer with beacons has opened a link.
    let onBeacons: @LoopActor (DeviceAddress) -> Void
    /// Called when a peer has opened a stream that begins with a TLS handshake.
    let onTLS: @LoopActor (SocketStream, DeviceAddress) -> Void
    /// Returns the response to a request for beacons.
    let answer: @LoopActor (HTTPServerRequest) -> HTTPServerResponse
  }

  /// Maximum time until a link is open, including the handshake.
  private static let connectTime = Duration.seconds(15)
  private static let phoneNoticePeriod = Duration.seconds(24 * 3600)

  private let owner: Owner
  private let scheduler: any Scheduler
  private var server: HTTPServer?
  private var links: [Int: RFCOMMLink] = [:]
  private var last = 0
  /// The numbers of the links that this machine made.
  private var outgoing: [DeviceAddress: Int] = [:]
  private var waiting: [DeviceAddress: [Waiter]] = [:]
  /// Number of calls of `close`. A link whose opening began before the last call is closed as soon as it is open.
  private var closings = 0
  private var refusals: [RFCOMMHandshake.Refusal: UInt64] = [:]
  private var failures: [Multiplexer.LinkFailure: UInt64] = [:]
  /// Sums of the counters of links that have ended.
  private var ignoredFrames: UInt64 = 0
  private var refusedStreams: UInt64 = 0
  private var accepted: UInt64 = 0
  private var opened: UInt64 = 0
  private var unreachable: UInt64 = 0
  private var tooMany: UInt64 = 0
  private var evicted: UInt64 = 0
  /// The numbers of the peers' links that carried a stream of a known peer.
  private var proven: Set<Int> = []
  private var devices: [Int: DeviceAddress] = [:]
  private var silentStreams: UInt64 = 0
  private var phoneNotice: Instant?

  @LoopActor
  private final class Waiter {
    var then: (@LoopActor (SocketStream?) -> Void)?
    var timer: Registration?

    init(_ then: @escaping @LoopActor (SocketStream?) -> Void) { self.then = then }

    func finish(_ stream: SocketStream?) {
      let report = then
      (then, timer) = (nil, nil)
      if report == nil { stream?.close() }
      report?(stream)
    }
  }

  init(_ owner: Owner, on scheduler: any Scheduler) {
    (self.owner, self.scheduler) = (owner, scheduler)
    do throws(NetworkError) {
      server = try HTTPServer(on: scheduler, answer: owner.answer)
    } catch {
      Log.shared.error("Beacons cannot be served over Bluetooth. \(error.sentence)", id: .presenceNetworkFailed)
    }
  }

  /// Number of open links.
  var count: Int { links.count }

  var tallies: [Tally] {
    let open = links.values.map(\.counters)
    return [
      Tally("AcceptedLinks", accepted), Tally("OpenedLinks", opened), Tally("UnreachableDevices", unreachable),
      Tally("TooManyLinks", tooMany), Tally("EvictedLinks", evicted), Tally("SilentStreams", silentStreams),
      Tally("IgnoredFrames", open.reduce(ignoredFrames) { $0 + $1.ignoredFrames }),
      Tally("RefusedStreams", open.reduce(refusedStreams) { $0 + $1.refusedStreams }),
    ] + RFCOMMHandshake.Refusal.allCases.map { Tally($0.name, refusals[$0, default: 0]) }
      + Multiplexer.LinkFailure.allCases.map { Tally($0.name, failures[$0, default: 0]) }
  }

  /// Ends all links, also those that are being made.
  func close() {
    closings += 1
    for link in links.values { link.close() }
    for waiter in waiting.values.joined() { waiter.finish(nil) }
    (waiting, outgoing) = ([:], [:])
    server?.close()
  }

  // MARK: Links

  /// Handles a link that a peer has opened, and takes ownership of its descriptor.
  func accept(_ descriptor: Int32, from device: DeviceAddress) {
    let stream = SocketStream(owning: descriptor)
    guard makeRoom() else {
      tooMany += 1
      return stream.close()
    }
    accepted += 1
    _ = add(stream, device, .server)
  }

  /// Records that a known peer uses the link that the device opened, so that the link is not evicted.
  func prove(_ device: DeviceAddress) {
    for (number, other) in devices where other == device { proven.insert(number) }
  }

  /// Ends the oldest link of a peer that no known peer uses if there are many links. Strangers that open links must not
  /// exclude a known peer.
  ///
  /// - Returns: whether one more link is possible.
  private func makeRoom() -> Bool {
    guard links.count >= Limits.rfcommLinksBeforeEviction else { return true }
    if let oldest = devices.keys.filter({ !proven.contains($0) }).min() {
      evicted += 1
      links[oldest]?.close()
    }
    return links.count < Limits.rfcommLinksBeforeEviction
  }

  private func add(_ stream: SocketStream, _ device: DeviceAddress, _ role: RFCOMMHandshake.Role) -> RFCOMMLink {
    last += 1
    let number = last
    let link = RFCOMMLink(stream, role, on: scheduler) { [weak self] in self?.handle($0, number, device) }
    links[number] = link
    if role == .server { devices[number] = device }
    link.begin()
    return link
  }

  private func handle(_ event: RFCOMMLink.Event, _ number: Int, _ device: DeviceAddress) {
    switch event {
    case .established(let hasBeacons):
      if hasBeacons == true { owner.onBeacons(device) }
      if hasBeacons == nil { serveWaiting(device) }
    case .tls(let stream): owner.onTLS(stream, device)
    case .http(let descriptor):
      if let server { server.serve(owning: descriptor) } else { SocketStream(owning: descriptor).close() }
    case .silent: silentStreams += 1
    case .refused(let refusal):
      refusals[refusal, default: 0] += 1
      if refusal == .oldPhone { notePhone() }
    case .failed(let failure): failures[failure, default: 0] += 1
    case .ended:
      guard let link = links.removeValue(forKey: number) else { return }
      devices[number] = nil
      proven.remove(number)
      ignoredFrames += link.counters.ignoredFrames
      refusedStreams += link.counters.refusedStreams
      guard outgoing[device] == number else { return }
      outgoing[device] = nil
      failWaiting(device)
    }
  }

  /// Logs the connection of an old phone, once a day, because its owner may wonder why it does not work.
  private func notePhone() {
    let now = scheduler.now
    if let phoneNotice, phoneNotice.duration(to: now) < Self.phoneNoticePeriod { return }
    phoneNotice = now
    Log.shared.notice(
      "A phone with a Thali library of 2016 to 2018 has connected by Bluetooth, which is not supported",
      id: .presenceOldPhone)
  }

  // MARK: Streams to peers

  /// Opens a stream over the link to a device. Without a link, it opens one first.
  ///
  /// - Parameter then: called once, later; with nil if the device cannot be reached. `start` begins to read the stream.
  func open(to device: DeviceAddress, then: @escaping @LoopActor (SocketStream?) -> Void) {
    let waiter = Waiter(then)
    waiter.timer = scheduler.schedule(after: Self.connectTime) { [weak waiter] in waiter?.finish(nil) }
    waiting[device, default: []].append(waiter)
    if let number = outgoing[device] {
      if links[number]?.isEstablished == true { scheduler.soon { [weak self] in self?.serveWaiting(device) } }
      return
    }
    guard makeRoom() else {
      tooMany += 1
      return scheduler.soon { [weak self] in self?.failWaiting(device) }
    }
    // The number 0, which no link has, stands for a link that is being opened.
    outgoing[device] = 0
    let closings = closings
    owner.connect(device) { [weak self] descriptor in
      guard let self, self.closings == closings else {
        descriptor.map { SocketStream(owning: $0).close() }
        return
      }
      guard let descriptor else {
        unreachable += 1
        outgoing[device] = nil
        return failWaiting(device)
      }
      opened += 1
      let link = add(SocketStream(owning: descriptor), device, .client(hasBeacons: owner.hasBeacons()))
      outgoing[device] = link.isOver ? nil : last
    }
  }

  private func serveWaiting(_ device: DeviceAddress) {
    guard let link = outgoing[device].flatMap({ links[$0] }) else { return }
    for waiter in waiting.removeValue(forKey: device) ?? [] where waiter.then != nil { waiter.finish(link.open()) }
  }

  private func failWaiting(_ device: DeviceAddress) {
    for waiter in waiting.removeValue(forKey: device) ?? [] { waiter.finish(nil) }
  }
}
