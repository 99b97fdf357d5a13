import Common
import Crypto

/// Finding the verifier, up to Identify. Facts: tuvali.md sections 1 to 4 and 7.
extension WalletEngine {
  mutating func start(at now: Instant) -> [Action] {
    guard case .idle = state else { return [] }
    state = .scanning(until: now.advanced(by: configuration.scanTimeout))
    return [.scan(dialects.map(\.service))]
  }

  mutating func sight(_ token: UInt64, _ serviceData: [BluetoothUUID: [UInt8]], at now: Instant) -> [Action] {
    guard case .scanning = state else { return [] }
    for dialect in dialects where serviceData[dialect.service] == invitation.advertisedServiceData {
      guard let scanned = serviceData[dialect.scanResponse] else { continue }
      guard scanned == invitation.scanResponseServiceData else {
        impostors += 1
        continue
      }
      state = .connecting(dialect)
      connectEnd = now.advanced(by: configuration.connectTimeout)
      transferEnd = now.advanced(by: configuration.transferTimeout)
      return [.stopScanning, .connect(token: token)]
    }
    return []
  }

  mutating func connected() -> [Action] {
    guard case .connecting(let dialect) = state else { return [] }
    state = .discovering(dialect, attempt: 1, retryAt: nil)
    return [.discover]
  }

  mutating func discover(_ services: [BluetoothUUID: Set<BluetoothUUID>], at now: Instant) -> [Action] {
    guard case .discovering(let dialect, let attempt, _) = state else { return [] }
    let needed = Characteristic.allCases.filter { $0.direction != .unused }.map(dialect.uuid(of:))
    if services[dialect.service]?.isSuperset(of: needed) == true {
      state = .exchangingMTU(dialect)
      return [.exchangeMTU(Limits.offeredMTU)]
    }
    guard attempt <= Limits.discoveryRetries else {
      let error = TuvaliError(
        .walletServiceNotFound, .protocolViolation,
        "The verifier advertises the Tuvali service but does not have its characteristics.")
      return fail(error, at: now)
    }
    // Delays of 2, 4, 8, 16 and 32 ms.
    let retryAt = now.advanced(by: .milliseconds(1 << attempt))
    state = .discovering(dialect, attempt: attempt + 1, retryAt: retryAt)
    return []
  }

  mutating func change(mtu: Int, at now: Instant) -> [Action] {
    progress.mtu = mtu
    switch state {
    case .exchangingMTU, .subscribing, .identifying, .sealing: break
    // The MTU is not needed yet, or the chunks are already cut.
    default: return []
    }
    guard ChunkLayout(mtu: mtu).isUsable else {
      let error = TuvaliError(
        .walletMTU, .protocolViolation,
        "The MTU negotiated with the verifier is \(mtu); a transfer needs at least \(Limits.minimumMTU).")
      return fail(error, at: now)
    }
    guard case .exchangingMTU(let dialect) = state else { return [] }
    let toWallet = Characteristic.allCases.filter { $0.direction == .toWallet }
    state = .subscribing(dialect, awaited: Set(toWallet))
    return [.tell(.connected(mtu: mtu))] + toWallet.map { .subscribe($0, dialect) }
  }

  mutating func subscribed(_ characteristic: Characteristic, at now: Instant) -> [Action] {
    guard case .subscribing(let dialect, var awaited) = state else { return [] }
    awaited.remove(characteristic)
    state = .subscribing(dialect, awaited: awaited)
    guard awaited.isEmpty else { return [] }
    return identify(to: dialect, at: now)
  }

  /// Generates key pair and nonce of this connection, and sends them.
  private mutating func identify(to dialect: Dialect, at now: Instant) -> [Action] {
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(Identify.nonceBytes)
    guard let keys = try? SessionKeys(own: key, peer: invitation.key, nonce: nonce) else {
      let error = TuvaliError(
        .walletInvalidURI, .protocolViolation, "The verifier's public key is weak: it makes the shared secret zero.")
      return fail(error, at: now)
    }
    state = .identifying(dialect, keys)
    let identify = Identify(nonce: nonce, walletKey: key.publicKey)
    return [write(identify.bytes, to: .identify, dialect)]
  }
}
