import Common
import Journal
import Loop
import PBLEC
import Radio

/// The radio of the local broadcast channel: scanning, and broadcasting messages and beacons.
extension BroadcastService {
  /// Advertising terms of a message: it is broadcast for its 4 s without interruption, or dropped.
  static let messageTerms = AdvertisingTerms(
    .broadcast, leastTime: Limits.airTime, longestWait: Limits.longestWait)
  /// Advertising terms of a beacon: it may be preempted, and continues afterwards.
  static let beaconTerms = AdvertisingTerms(.notify, leastTime: .zero, longestWait: Limits.longestWait)
  /// Advertising interval: a message is broadcast forty times.
  static let interval = Duration.milliseconds(100)

  /// Patterns of the scan: complete and shortened names that start with the mark, and the beacon.
  static let patterns = [
    AdvertisingPattern(type: MessagePacket.completeName, bytes: [MessagePacket.mark]),
    AdvertisingPattern(type: MessagePacket.shortenedName, bytes: [MessagePacket.mark]),
    AdvertisingPattern(type: NotifyBeacon.manufacturerData, bytes: NotifyBeacon.prefix),
  ]

  // MARK: Scanning

  func listen() {
    guard isStarted, engine != nil, listening == nil else { return }
    do throws(RadioError) {
      listening = try radio.listen(for: Self.patterns) { [weak self] in self?.hear($0) }
      deafness = nil
    } catch {
      deafness = error.sentence
    }
  }

  func radioChanged() {
    // The status has changed, so the radio may now be able to report packets.
    listen()
    changed()
  }

  // MARK: Messages

  /// Broadcasts a message with the advertising set, and thereby the address, of the previous message.
  func transmit(_ packet: MessagePacket, as number: UInt64) {
    airing = nil
    do throws(RadioError) {
      airing = try messages().air(packet.advertised, for: Limits.airTime) { [weak self] in self?.aired($0, number) }
    } catch {
      // Report the error after the engine's actions have been performed.
      let reason = error.feedError
      scheduler.soon { [weak self] in self?.handle(.refused(number, reason)) }
    }
  }

  /// Returns the advertising set of the previous message, or a new one.
  private func messages() throws(RadioError) -> any AdvertisingSet {
    if let messageSet { return messageSet }
    let set = try radio.advertisingSet(Self.messageTerms, every: Self.interval, resting: .silence)
    messageSet = set
    return set
  }

  private func aired(_ event: AiringEvent, _ number: UInt64) {
    switch event {
    case .began: handle(.began(number))
    case .ended: handle(.ended(number, wasCutShort: false))
    case .cutShort: handle(.ended(number, wasCutShort: true))
    case .refused(let error): handle(.refused(number, error.feedError))
    }
  }

  /// Stops the current broadcast, or withdraws its request for a slot. The address stays.
  func silence() { airing = nil }

  func leaveAir() {
    airing = nil
    messageSet?.close()
    messageSet = nil
  }

  // MARK: Beacons

  /// Broadcasts a beacon for its remaining time.
  func call(_ beacon: NotifyBeacon, for time: Duration = Limits.beaconTime, hasBegun: Bool = false) {
    beaconAiring = nil
    do throws(RadioError) {
      beaconAiring = try beacons().air(beacon.advertised, for: time) { [weak self] event in
        self?.called(event, beacon, time, hasBegun)
      }
    } catch {
      let reason = error.feedError
      scheduler.soon { [weak self] in self?.beaconEnded(reason, hasBegun: hasBegun) }
    }
  }

  private func beacons() throws(RadioError) -> any AdvertisingSet {
    if let beaconSet { return beaconSet }
    let set = try radio.advertisingSet(Self.beaconTerms, every: Self.interval, resting: nil)
    beaconSet = set
    return set
  }

  private func called(_ event: AiringEvent, _ beacon: NotifyBeacon, _ time: Duration, _ hasBegun: Bool) {
    switch event {
    case .began: handle(.beaconBegan)
    case .ended: beaconEnded(nil, hasBegun: true)
    // Another advertisement needs the slot for a short time. Receivers recognize the resumed beacon by its major and
    // minor numbers.
    case .cutShort(let after) where after < time: call(beacon, for: time - after, hasBegun: true)
    case .cutShort: beaconEnded(nil, hasBegun: true)
    case .refused(let error): beaconEnded(error.feedError, hasBegun: hasBegun)
    }
  }

  private func beaconEnded(_ error: BroadcastError?, hasBegun: Bool) {
    stopCalling()
    handle(hasBegun ? .beaconEnded : .beaconRefused)
    if let error { noteUncalled(error) }
    callOutcomes.call(hasBegun && error != nil ? .cutShort : error)
  }

  private func noteUncalled(_ error: BroadcastError) {
    guard told.allow(.unsent, at: scheduler.now) else { return }
    Log.shared.warning(
      "The notification was not broadcast for its whole minute: \(error)", id: .broadcastUnsent, .error(error),
      .protocolName("pblec"))
  }

  /// Stops a beacon that the engine has abandoned, and reports it if it was passed to the radio. A request that still
  /// waits for the disk is answered when its record is stored.
  func stopCalling(_ error: BroadcastError) {
    let wasAsking = beaconSet != nil
    stopCalling()
    guard wasAsking else { return }
    if error != .cancelled { noteUncalled(error) }
    callOutcomes.call(error)
  }

  private func stopCalling() {
    beaconAiring = nil
    beaconSet?.close()
    (beaconSet, waitingBeacon) = (nil, nil)
  }
}

extension MessagePacket {
  /// Advertising data for the radio.
  var advertised: AdvertisingData { AdvertisingData([.flags(Self.flags), .localName(name)]) }
}

extension NotifyBeacon {
  /// Advertising data for the radio.
  var advertised: AdvertisingData {
    AdvertisingData([.flags(MessagePacket.flags), .manufacturerData(Self.company, Array(data.dropFirst(2)))])
  }
}

extension AdvertisingData {
  /// Advertising data of a set between two messages: flags only.
  fileprivate static let silence = AdvertisingData([.flags(MessagePacket.flags)])
}

extension AdvertiserID {
  init(_ packet: AdvertisingPacket) {
    self.init(rawValue: packet.address.value | (packet.addressKind == .publicAddress ? 1 << 48 : 0))
  }
}

extension RadioError {
  /// Reason for the channel's clients, derived from the error of the radio.
  var feedError: BroadcastError {
    switch self {
    case .notReady(let why): .noRadio(why)
    case .noSlot: .noPlace
    default: .radioFailed(sentence)
    }
  }
}
