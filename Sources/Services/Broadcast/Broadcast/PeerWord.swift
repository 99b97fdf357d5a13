import PBLEC

/// Two words for a peer's alias, for people. They do not reveal the address, and change with a restart.
enum PeerWord {
  /// - Parameter alias: taken modulo `Limits.aliases`.
  static func word(_ alias: Int) -> String {
    let number = ((alias % Limits.aliases) + Limits.aliases) % Limits.aliases
    return "\(first[number >> 7])-\(second[number & 127])"
  }

  static let first = words(
    """
    agile airy amber ample apt arid azure bald bare blithe blond blue bold bonny brave brief bright brisk broad bronze brown busy calm
    candid chief civil clear clever cloudy coral cosy crisp curly dapper daring deep deft dewy dry dusky eager early easy even fair
    famous fancy fast fine firm fleet fluffy fond frank free fresh frosty gentle giant glad golden grand green grey handy happy hardy
    hasty hazel honest humble icy ivory jade jolly keen kind large lean light lively lone loud loyal lucid lucky mellow merry mild
    minty misty modest neat nimble noble olive pale plain polite prime proud quick quiet rapid rare ready red rosy royal ruby rustic
    sandy sharp shy silent silver sleek small smart snowy solid spry steady sunny swift teal warm witty
    """)

  static let second = words(
    """
    acorn alder anchor apple arrow ash aspen atlas badger barley basil beacon beaver beech birch bison boulder bramble breeze bridge
    brook canyon carp cedar cherry clover comet copper crane creek cricket cypress daisy delta dove dune eagle elder elm ember falcon
    feather fern ferry finch fjord flint forest fox garnet geyser ginger glacier grove gull harbor hare hawk hazelnut heather heron
    hill holly island ivy jackdaw jasper juniper kestrel kite lagoon lake lantern larch lark laurel lemon lichen lily linden lotus
    lynx maple marble marten meadow mesa mint moon moss nettle newt oak oasis opal orchid osprey otter owl panda pebble pepper pine
    plover plum pond poplar puffin quail quartz raven reed reef ridge river robin rowan saffron sage salmon sequoia shore sparrow
    spruce stream thistle tulip willow
    """)

  private static func words(_ text: String) -> [String] { text.split(whereSeparator: \.isWhitespace).map(String.init) }
}
