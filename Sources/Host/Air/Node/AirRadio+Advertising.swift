import Common
import Loop
import Radio

extension AirRadio {
  public func advertise(_ advertisement: Advertisement?, in slot: Int) {
    guard let advertisement else { return advertise(encoded: nil, in: slot) }
    // The advertisement of a different set is sent from a different address.
    if slots[slot]?.advertisement?.setID != advertisement.setID { advertise(encoded: nil, in: slot) }
    do throws(RadioError) {
      advertise(encoded: try EncodedAdvertisement(advertisement), advertisement, in: slot)
    } catch {
      hide(slot)
      slots[slot] = AirSlot(error: error)
      statusMayHaveChanged()
    }
  }

  func advertise(encoded content: EncodedAdvertisement?, _ advertisement: Advertisement? = nil, in slot: Int) {
    defer {
      statusMayHaveChanged()
      onAirMayHaveChanged(slot)
    }
    guard let content, (0..<advertisingSlots).contains(slot) else {
      hide(slot)
      slots[slot] = nil
      return
    }
    let old = slots[slot]
    if let old, let id = old.onAir, old.content?.isConnectable == content.isConnectable,
      old.content?.interval == content.interval
    {
      // The data of a running set can be replaced without interruption.
      if old.content != content { air.change(id, to: content) }
      slots[slot]?.content = content
      slots[slot]?.advertisement = advertisement
    } else {
      hide(slot)
      slots[slot] = AirSlot(content: content, advertisement: advertisement)
      show(slot)
    }
  }

  /// Notifies the delegate in the next event of a changed slot.
  private func onAirMayHaveChanged(_ slot: Int) {
    guard delegate != nil, onAirDue.insert(slot).inserted else { return }
    air.agenda.next { [weak self] in
      guard let self else { return }
      onAirDue.remove(slot)
      let shown = slots[slot].flatMap { $0.onAir == nil ? nil : $0.advertisement }
      guard shown != toldOnAir[slot] else { return }
      toldOnAir[slot] = shown
      delegate?.onAir(shown, in: slot)
    }
  }

  func advertisingSlotsChanged() {
    for slot in slots.keys.sorted() where slot >= advertisingSlots { advertise(encoded: nil, in: slot) }
    air.agenda.next { [weak self] in self?.delegate?.advertisingSlotsChanged() }
  }

  /// Starts to broadcast the content of a slot unless it is already broadcast.
  func show(_ slot: Int) {
    guard power, let content = slots[slot]?.content, slots[slot]?.onAir == nil else { return }
    let id = air.putOnAir(self, content)
    slots[slot]?.onAir = id
    slots[slot]?.silencedBy = nil
    onAirMayHaveChanged(slot)
    air.retryConnecting()
  }

  func hide(_ slot: Int) {
    let id = slots[slot]?.onAir
    slots[slot]?.onAir = nil
    id.map(air.takeOffAir)
    if id != nil { onAirMayHaveChanged(slot) }
    slots[slot]?.silencedBy = nil
  }

  /// A peer has connected by an advertisement, which ends it if `controller.fallsSilent`.
  func connected(by advertisement: UInt64, on link: LinkID) {
    guard controller.fallsSilent, let slot = slots.first(where: { $0.value.onAir == advertisement })?.key
    else { return }
    hide(slot)
    slots[slot]?.silencedBy = link
    guard controller.renewsAdvertisements else { return }
    air.agenda.next { [weak self] in
      if self?.slots[slot]?.silencedBy == link { self?.show(slot) }
    }
  }

  /// The next time at which a peer can connect, and the advertisement for it; nil if there is none.
  func nextConnectableEvent(from now: Instant) -> (at: Instant, advertisement: UInt64)? {
    slots.values.compactMap { slot -> (at: Instant, advertisement: UInt64)? in
      guard let id = slot.onAir, slot.content?.isConnectable == true, let onAir = air.onAir[id] else { return nil }
      return (onAir.nextEvent(from: now), id)
    }.min { ($0.at, $0.advertisement) < ($1.at, $1.advertisement) }
  }
}
