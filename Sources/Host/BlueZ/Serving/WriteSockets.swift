import Common
import DBus
import Journal
import Loop
import Radio

/// The sockets through which clients write one characteristic, with bluetoothd from 5.76 on, and the offer of them
/// (`WriteOffer`).
@LoopActor
final class WriteSockets {
  private let characteristic: ServedCharacteristic
  private let context: ServingContext
  private var sockets: [LinkID: PacketSocket] = [:]
  private lazy var offer = WriteOffer(scheduler: context.scheduler) { [weak self] in self?.tell($0) }

  /// Bytes of writes that may wait for this program: bluetoothd drops writes beyond it. The kernel may limit it
  /// further.
  private static let buffer = 1 << 20
  /// Maximum writes of one client that are handled in one loop iteration.
  private static let batchLimit = 16
  /// Delay that collects closely spaced writes. It equals the shortest connection interval of Bluetooth, in which a
  /// controller delivers several.
  private static let gatheringTime = Duration.microseconds(7500)

  init(_ characteristic: ServedCharacteristic, _ context: ServingContext) {
    self.characteristic = characteristic
    self.context = context
    for link in context.links.all { offer.opened(link.id) }
  }

  // MARK: Offer

  func opened(_ link: LinkID) { offer.opened(link) }

  func expectUnlinkedPeers() { offer.expectUnlinkedPeers() }

  func expectStream(from link: LinkID) { offer.expectStream(from: link) }

  /// Handles a write of a client by `WriteValue`.
  func wrote(_ link: LinkID) { offer.wrote(link) }

  /// Signals that the offer was made or withdrawn. bluetoothd checks only whether the property exists, and ignores
  /// its value.
  private func tell(_ isMade: Bool) {
    guard let owner = context.links.place?.owner else { return }
    Log.shared.debug(isMade ? "Sockets for writes are offered" : "The offer of sockets for writes is withdrawn")
    let changed: [String: DBusValue] = isMade ? ["WriteAcquired": .bool(false)] : [:]
    context.bus.emit(
      characteristic.path, BlueZName.properties, "PropertiesChanged",
      [.string(BlueZName.gattCharacteristic), .options(changed), .strings(isMade ? [] : ["WriteAcquired"])], to: owner)
  }

  // MARK: Sockets

  /// Opens the socket of a client, in place of an earlier one, which `takeLast` has emptied.
  ///
  /// - Returns: bluetoothd's end.
  func acquire(for link: PeerLink) throws(DBusError) -> FileDescriptor {
    let (socket, end) = try PacketSocket.pair(otherBuffer: Self.buffer)
    let id = link.id
    sockets.updateValue(socket, forKey: id)?.close()
    offer.settled(id)
    link.isUsed = true
    socket.gatheringTime = Self.gatheringTime
    socket.onReadable = { [weak self] in _ = self?.take(of: id) }
    socket.onHangUp = { [weak self, weak socket] in
      guard let self, let socket, sockets[id] === socket else { return }
      takeLast(of: id)
      sockets[id] = nil
      socket.close()
    }
    return end
  }

  /// Handles values that a client wrote through its socket, at most `batchLimit`.
  ///
  /// - Returns: whether more may be waiting.
  private func take(of link: LinkID) -> Bool {
    guard let socket = sockets[link] else { return false }
    let arrivals = socket.receive(limit: ATT.valueLimit, upTo: Self.batchLimit)
    for arrival in arrivals {
      // The link has ended, or bluetoothd has requested another socket. The code that removed this one from the table
      // closed it.
      guard !socket.isClosed else { return false }
      take(arrival, on: link)
    }
    return arrivals.count == Self.batchLimit && arrivals.last != .closed
  }

  /// Handles all remaining values of a link that ends. Their number is limited by the socket's buffer.
  func takeLast(of link: LinkID) {
    while take(of: link) {}
  }

  /// Handles a value from a client's socket; a write through a socket cannot be refused.
  private func take(_ arrival: PacketSocket.Arrival, on link: LinkID) {
    do throws(ATTError) {
      switch arrival {
      case .packet(let value):
        guard let delegate = context.delegate else { throw .unlikely }
        try delegate.written(value, to: characteristic.id, of: characteristic.application, on: link)
      case .tooLong: throw .invalidLength
      case .nothing, .closed: break
      }
    } catch {
      context.counters.refusedWrites += 1
    }
  }

  // MARK: Ends

  func forget(_ link: LinkID) {
    sockets.removeValue(forKey: link)?.close()
    offer.closed(link)
  }

  /// Handles that bluetoothd has dropped the characteristic.
  func reset() {
    close()
    offer.reset()
    if context.links.hasUnlinkedPeers { offer.expectUnlinkedPeers() }
  }

  func close() {
    for socket in sockets.values { socket.close() }
    sockets = [:]
  }
}

/// Decides whether bluetoothd is offered sockets for its clients' writes (`AcquireWrite`) to one characteristic.
///
/// While bluetoothd waits for a client's socket, it also puts the first writes of other clients into that socket, as if
/// the first client had sent them. The fault is in `acquire_write` of `src/gatt-database.c` (5.82), which has one list
/// for all clients. The service would confuse clients that connect at the same time, for example after a restart of
/// this program. A client's first write must therefore arrive by `WriteValue`, which names the client: sockets are not
/// offered while a connected client has not written, for at most 30 s.
///
/// During the wait bluetoothd also corrupts further writes of the client itself. Sockets are therefore not offered
/// either while a client is connected that has no socket and is not expected to stream. A streaming client writes its
/// first values one at a time; any other client, such as a phone, may begin with a burst.
@LoopActor
final class WriteOffer {
  /// Time after which a peer without writes does not count as a client: discovery can take a slow peer ten seconds.
  static let patience = Duration.seconds(30)

  private(set) var isMade = false
  /// Connected clients that have not written yet.
  private var newcomers: [LinkID: Registration] = [:]
  /// Timer that runs while peers without a link here are connected, one of which may be a client.
  private var unlinkedPeers: Registration?
  /// Clients whose writes arrive by bluetoothd's call `WriteValue`, and not through a socket.
  private var callers: Set<LinkID> = []
  /// Clients that have announced a stream of writes to the service.
  private var streamers: Set<LinkID> = []
  private let scheduler: any Scheduler
  private let tell: @LoopActor (Bool) -> Void

  /// - Parameter tell: called when the offer is made or withdrawn.
  init(scheduler: any Scheduler, tell: @escaping @LoopActor (Bool) -> Void) {
    self.scheduler = scheduler
    self.tell = tell
  }

  func opened(_ link: LinkID) {
    newcomers[link] = scheduler.schedule(after: Self.patience) { [weak self] in self?.settled(link) }
    decide()
  }

  /// Handles a connected peer that has no link here until it is active: it connected before this program started, or is
  /// paired.
  func expectUnlinkedPeers() {
    unlinkedPeers = scheduler.schedule(after: Self.patience) { [weak self] in
      self?.unlinkedPeers = nil
      self?.decide()
    }
    decide()
  }

  /// Handles a write of a client by `WriteValue`.
  func wrote(_ link: LinkID) {
    newcomers[link] = nil
    callers.insert(link)
    decide()
  }

  /// Records that the service expects a client to stream.
  func expectStream(from link: LinkID) {
    streamers.insert(link)
    decide()
  }

  /// Handles a client that has a socket, or whose time for a first write has passed.
  func settled(_ link: LinkID) {
    newcomers[link] = nil
    callers.remove(link)
    decide()
  }

  /// Handles the end of a client's link.
  func closed(_ link: LinkID) {
    streamers.remove(link)
    settled(link)
  }

  /// Handles that bluetoothd has dropped the characteristic.
  func reset() {
    (isMade, callers) = (false, [])
  }

  private func decide() {
    let isDue =
      newcomers.isEmpty && unlinkedPeers == nil && callers.isSubset(of: streamers) && (isMade || !callers.isEmpty)
    guard isDue != isMade else { return }
    isMade = isDue
    tell(isDue)
  }
}
