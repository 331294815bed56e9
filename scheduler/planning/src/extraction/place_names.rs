//! Names of places, and capitalised words that are none.

/// Capitalised words that are no places.
pub(super) const NO_PLACES: &[&str] = &[
    "i", "we", "my", "the", "a", "an", "it", "this", "that", "please", "can", "plan", "find", "book", "for", "in",
    "with", "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "english", "french", "german",
    "spanish", "italian", "chinese", "japanese", "portuguese", "russian", "arabic", "korean", "dutch", "hindi",
    "latin", "swedish", "polish", "turkish", "greek", "python", "rust", "java", "javascript", "excel", "word",
    "google", "wikipedia", "twitter", "facebook", "amazon", "youtube", "internet", "linux", "windows", "christmas",
    "easter", "thanksgiving", "usd", "eur", "budget", "safari", "chrome", "firefox", "android", "outlook",
    "powerpoint",
];

/// Cities that travellers name most, also found in lower case.
pub(super) const KNOWN: &[&str] = &[
    "Paris", "London", "Rome", "Berlin", "Madrid", "Barcelona", "Lisbon", "Amsterdam", "Vienna", "Prague", "Budapest",
    "Athens", "Dublin", "Edinburgh", "Copenhagen", "Stockholm", "Oslo", "Helsinki", "Reykjavik", "Zurich", "Geneva",
    "Munich", "Hamburg", "Cologne", "Frankfurt", "Brussels", "Milan", "Venice", "Florence", "Naples", "Porto",
    "Seville", "Valencia", "Krakow", "Warsaw", "Istanbul", "Dubai", "Abu Dhabi", "Cairo", "Marrakech", "Cape Town",
    "Nairobi", "Tokyo", "Kyoto", "Osaka", "Seoul", "Beijing", "Shanghai", "Hong Kong", "Singapore", "Bangkok",
    "Phuket", "Bali", "Hanoi", "Kuala Lumpur", "Jakarta", "Manila", "Taipei", "Delhi", "New Delhi", "Mumbai", "Goa",
    "Sydney", "Melbourne", "Auckland", "New York", "New York City", "NYC", "Los Angeles", "LA", "San Francisco", "SF",
    "Las Vegas", "Vegas", "Chicago", "Boston", "Miami", "Orlando", "Seattle", "Washington", "Austin", "Dallas",
    "Houston", "Denver", "Portland", "Philadelphia", "San Diego", "New Orleans", "Nashville", "Atlanta", "Honolulu",
    "Toronto", "Montreal", "Vancouver", "Mexico City", "Cancun", "Havana", "Rio de Janeiro", "Sao Paulo",
    "Buenos Aires", "Lima", "Cusco", "Santiago", "Bogota", "Nice", "Lyon", "Marseille", "Bordeaux", "Salzburg",
    "Innsbruck", "Santorini", "Crete", "Sicily", "Tuscany", "Hawaii", "Bruges", "Dresden", "Leipzig", "Stuttgart",
    "Tel Aviv", "Jerusalem",
];

pub(super) const COUNTRIES: &[&str] = &[
    "France", "Italy", "Spain", "Portugal", "Germany", "Austria", "Switzerland", "Netherlands", "Belgium", "Greece",
    "Ireland", "Scotland", "England", "Wales", "United Kingdom", "UK", "Iceland", "Norway", "Sweden", "Denmark",
    "Finland", "Poland", "Hungary", "Czech Republic", "Croatia", "Turkey", "Egypt", "Morocco", "Kenya", "Tanzania",
    "South Africa", "Japan", "China", "South Korea", "Thailand", "Vietnam", "Indonesia", "Malaysia", "Philippines",
    "India", "Nepal", "Sri Lanka", "Australia", "New Zealand", "United States", "USA", "Canada", "Mexico", "Cuba",
    "Costa Rica", "Brazil", "Argentina", "Chile", "Peru", "Colombia", "Bolivia", "Ecuador", "Israel", "Jordan",
    "Romania", "Slovenia", "Slovakia", "Estonia", "Latvia", "Lithuania", "Luxembourg", "Malta", "Cyprus", "Serbia",
    "Bulgaria", "Albania", "Montenegro", "Ukraine", "Tunisia", "Ghana", "Nigeria", "Ethiopia", "Uganda", "Rwanda",
    "Namibia", "Botswana", "Madagascar", "Mauritius", "Qatar", "Oman", "Lebanon", "Pakistan", "Bangladesh", "Cambodia",
    "Laos", "Mongolia", "Taiwan", "Panama", "Guatemala", "Uruguay", "Paraguay", "Jamaica", "Saudi Arabia",
    "Dominican Republic",
];

pub(super) const REGIONS: &[&str] = &[
    "Texas", "California", "Oregon", "Maine", "Florida", "Georgia", "Ohio", "Tennessee", "Kentucky", "Illinois",
    "Nevada", "Arizona", "Colorado", "Utah", "Montana", "Idaho", "Alaska", "Virginia", "Massachusetts", "Ontario",
    "Quebec", "British Columbia", "New Mexico", "New Jersey", "Pennsylvania", "Louisiana", "Alabama", "Michigan",
    "Minnesota", "Wisconsin", "Missouri", "Iowa", "Kansas", "Nebraska", "Oklahoma", "Arkansas", "Mississippi",
    "Bavaria", "Tuscany", "Provence", "Alps", "Dolomites", "Pyrenees", "Black Forest", "Lake District", "Cotswolds",
    "Highlands", "Rockies", "Balkans", "Scandinavia", "Caribbean", "Patagonia", "Normandy", "Brittany", "Andalusia",
    "Catalonia", "Cornwall", "Yorkshire",
];

pub(super) const STATES: &[&str] = &[
    "AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "ID", "IL", "IN", "IA", "KS", "KY", "LA", "ME",
    "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ", "NM", "NY", "NC", "ND", "OH", "OK", "OR", "PA",
    "RI", "SC", "SD", "TN", "TX", "UT", "VT", "VA", "WA", "WV", "WI", "WY", "DC",
];
